"""What the cluster's API knows of an experiment: nodes, claims, Jobs, services, the run."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Iterator
from typing import Any, Final

from kubernetes.client import (
    ApiClient,
    AppsV1Api,
    BatchV1Api,
    CoreV1Api,
    ResourceV1Api,
    V1Job,
    V1Node,
    V1Pod,
)

from charts.names import BENCHMARK_POD, NAMESPACE, NODE_GROUP_LABEL, Component
from deployment import nodes, reasons
from deployment.place import Place
from deployment.status.account import moment, troubles
from deployment.status.screen import Row

PATIENCE: Final = (4, 20)
"""Seconds to reach the API, and for its answer."""
_SYSTEM: Final = "system"
_TYPE: Final = "node.kubernetes.io/instance-type"


class Cluster:
    """The objects of the cluster at one moment.

    Raises ApiException or urllib3's HTTPError, here and in what it is asked.
    """

    def __init__(self, api: ApiClient, place: Place) -> None:
        self._api, self._place = api, place
        core = CoreV1Api(api)
        self._nodes: list[V1Node] = core.list_node(_request_timeout=PATIENCE).items
        self._pods: list[V1Pod] = core.list_namespaced_pod(NAMESPACE).items

    def nodes(self) -> Iterator[Row]:
        """A row for each group, and what keeps it from its size. Raises DeploymentError."""
        groups = {group.kind.value: group for group in nodes.groups(self._place)}
        kinds = {self._kind(node): None for node in self._nodes}
        for kind in dict.fromkeys((*groups, *kinds)):
            there = [node for node in self._nodes if self._kind(node) == kind]
            ready = [node for node in there if _condition(node, "Ready")]
            group = groups.get(kind)
            wanted = group.size if group else len(there)
            yield Row(kind, f"{len(ready)} of {wanted} ready{_since(ready)}")
            if group and len(ready) < group.size:
                yield from troubles(self._place, group)

    def claims(self) -> Iterator[Row]:
        """How many devices are given to whom."""
        for claim in ResourceV1Api(self._api).list_namespaced_resource_claim(NAMESPACE).items:
            allocation = claim.status and claim.status.allocation
            if allocation and allocation.devices:
                holders = ", ".join(each.name for each in claim.status.reserved_for or [])
                count = len(allocation.devices.results or [])
                yield Row("", f"{count} devices: {holders or 'nobody'}")
            else:
                yield Row("", f"{claim.metadata.name}: no devices yet")

    def jobs(self) -> Iterator[Row]:
        """Downloads, compiles, and the indexes of a sweep or of jobs."""
        jobs = BatchV1Api(self._api).list_namespaced_job(NAMESPACE).items
        for job in sorted(jobs, key=lambda job: str(job.metadata.creation_timestamp)):
            # Its digest tells a person nothing.
            name = job.metadata.name.rpartition("-")[0] or job.metadata.name
            yield Row(name, self._job(job))

    def services(self) -> Iterator[Row]:
        """Each variant's, ready or why not."""
        listed = AppsV1Api(self._api).list_namespaced_deployment(
            NAMESPACE, label_selector=f"component={Component.VLLM}"
        )
        for service in sorted(listed.items, key=lambda each: str(each.metadata.name)):
            name = service.metadata.name
            pods = [pod for pod in self._pods if _label(pod, "app") == name]
            if not pods:
                yield Row(name, "no pod" if service.spec.replicas else "scaled to 0")
            for pod in pods:
                since = _condition(pod, "Ready")
                yield Row(
                    name,
                    f"ready since {moment(since)}" if since else self._why(pod),
                )

    def run(self) -> Iterator[Row]:
        """The benchmark's pod: its run, and the last that it said."""
        for pod in self._pods:
            if pod.metadata.name == BENCHMARK_POD:
                yield Row(pod.metadata.uid[:8], self._doing(pod))

    def _kind(self, node: V1Node) -> str:
        return str((node.metadata.labels or {}).get(NODE_GROUP_LABEL, _SYSTEM))

    def _job(self, job: V1Job) -> str:
        status, spec = job.status, job.spec
        done = ""
        if spec.completion_mode == "Indexed":
            done = f"complete: {status.completed_indexes or 'none'} of {spec.completions}"
            if status.failed_indexes:
                done += f", failed: {status.failed_indexes}"
        for condition in status.conditions or []:
            if condition.status == "True" and condition.type == "Complete":
                return done or f"complete since {moment(status.completion_time)}"
            if condition.status == "True" and condition.type == "Failed":
                return "; ".join(filter(None, [f"failed: {condition.message}", done]))
        if spec.suspend:
            return "not begun: it waits until it is asked for"
        pods = [
            pod
            for pod in self._pods
            if _label(pod, "batch.kubernetes.io/job-name") == job.metadata.name
            and pod.status.phase in ("Pending", "Running")
        ]
        doing = "; ".join(self._doing(pod) for pod in pods[:2]) or "waits for a pod"
        return "; ".join(filter(None, [done, doing]))

    def _doing(self, pod: V1Pod) -> str:
        """Why it is not ready, or the last line of its log, or how it ended."""
        if pod.status.phase == "Succeeded":
            return "has ended well"
        if why := reasons.explained(self._api, pod):
            return why
        names = [each.name for each in pod.status.container_statuses or []]
        lines = (reasons.last_line(self._api, pod, name) for name in reversed(names))
        return next((line for line in lines if line), "runs")

    def _why(self, pod: V1Pod) -> str:
        return reasons.explained(self._api, pod) or "has ended"


def _since(ready: Iterable[V1Node]) -> str:
    """Which instances, and since when the oldest stands."""
    every = [*ready]
    if not every:
        return ""
    types = sorted({str((node.metadata.labels or {}).get(_TYPE)) for node in every})
    oldest = min(node.metadata.creation_timestamp for node in every)
    return f": {', '.join(types)}, since {moment(oldest)}"


def _condition(object_: Any, kind: str) -> datetime.datetime | None:
    """Since when a condition of a node or a pod holds; None if it does not."""
    for condition in object_.status.conditions or []:
        if condition.type == kind and condition.status == "True":
            since: datetime.datetime = condition.last_transition_time
            return since
    return None


def _label(pod: V1Pod, key: str) -> str | None:
    found: str | None = (pod.metadata.labels or {}).get(key)
    return found
