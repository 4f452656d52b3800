"""``make status``: how everything is, on one screen; it changes nothing."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from kubernetes.client import ApiClient, CoreV1Api, ResourceV1Api, V1Job, V1Node, V1Pod

from charts.names import NAMESPACE, NODE_GROUP_LABEL, Component, benchmark_pod
from deployment import cluster, guard, lifecycle, nodes, pods, results
from deployment.account import Deployment, DeploymentError
from deployment.cluster import NoCluster, Unreachable, connected, kubernetes_errors
from deployment.console import print_table
from deployment.nodes import Kind
from deployment.spent import spent

Row = tuple[str, str]
"""A name, which may be empty, and how it is."""

_PATIENCE: Final = (4, 20)
"""Seconds to reach the API, and for its answer."""
_READY: Final = frozenset({"CREATE_COMPLETE", "UPDATE_COMPLETE", "IMPORT_COMPLETE"})
_RUNS: Final = 3
_SYSTEM: Final = "system"
_TYPE: Final = "node.kubernetes.io/instance-type"


def show(deployment: Deployment) -> int:
    """Prints the screen; returns the exit status. Raises DeploymentError."""
    now = datetime.datetime.now(datetime.UTC)
    print(f"{deployment.headline}, {now:%Y-%m-%d %H:%M} UTC", flush=True)
    print_table(
        (title if number == 0 else "", *row)
        for title, rows in sections(deployment)
        for number, row in enumerate(rows)
    )
    return 0


def sections(deployment: Deployment) -> Iterator[tuple[str, list[Row]]]:
    """All that is known, by title: what cannot be asked says why."""
    yield _section("stacks", _stacks, deployment)
    try:
        with connected(deployment) as api, kubernetes_errors():
            live = _Cluster(api, deployment)
            yield _section("nodes", live.nodes)
            yield _section("claims", live.claims)
            yield _section("jobs", live.jobs)
            yield _section("services", live.services)
            yield _section("run", live.run)
    except NoCluster:
        pass
    except DeploymentError as error:
        hint = " (docs/runbook.md, Reach a private API)" if isinstance(error, Unreachable) else ""
        yield "cluster", [("", f"not known{hint}: {error}")]
        yield _section("nodes", _groups, deployment)
    yield _section("results", _results, deployment)
    yield _section("cost", _cost, deployment)
    yield _section("guard", _guards, deployment)


def _section(title: str, ask: Callable[..., Iterable[Row]], *of: Any) -> tuple[str, list[Row]]:
    """A section that cannot be known does not take the others along."""
    try:
        with kubernetes_errors():
            return title, [*ask(*of)]
    except DeploymentError as error:
        return title, [("", f"not known: {error}")]


def _stacks(deployment: Deployment) -> Iterator[Row]:
    """Those that are complete in one row, each other in its own."""
    stacks = sorted(
        (s for s in lifecycle.existing(deployment) if lifecycle.owner(s) == deployment.name),
        key=lambda stack: str(stack["CreationTime"]),
    )
    if not stacks:
        yield "", "nothing is deployed"
    complete, incomplete = [], []
    for stack in stacks:
        label = str(stack["StackName"]).removeprefix(f"{deployment.name}-")
        if stack["StackStatus"] in _READY:
            complete.append(label)
        else:
            parts = (label, stack["StackStatus"], stack.get("StackStatusReason"))
            incomplete.append(": ".join(filter(None, parts)))
    if complete:
        yield "", f"{', '.join(complete)}: complete"
    yield from (("", line) for line in incomplete)


def _groups(deployment: Deployment) -> Iterator[Row]:
    """The node groups that EKS knows, for who cannot reach the cluster."""
    for group in nodes.groups(deployment):
        yield group.kind.value, f"{group.size} asked for, at most {group.maximum}"
        yield from _troubles(deployment, group)


def _troubles(deployment: Deployment, group: nodes.Group) -> Iterator[Row]:
    """What keeps a group from its size."""
    if group.status not in ("ACTIVE", "UPDATING"):
        yield group.kind.value, f"EKS: {group.status}"
    if group.size:
        for trouble in (*nodes.failures(deployment, group), *group.issues):
            yield group.kind.value, trouble


def _guards(deployment: Deployment) -> Iterator[Row]:
    """When the nodes are scaled to 0, whatever happens."""
    sizes = {group.kind: group.size for group in nodes.groups(deployment)}
    for kind in Kind:
        if guarded := guard.find(deployment, kind):
            minutes = round(guarded.hours * 60)
            yield (
                kind.value,
                f"to 0 at {_moment(guarded.at)}, in {minutes // 60}:{minutes % 60:02} h",
            )
        elif sizes.get(kind) and guard.is_acting(deployment, kind):
            yield kind.value, "is ending them: it asks EKS every 10 minutes"
        elif sizes.get(kind):
            yield kind.value, "none: its nodes run until `make stop EXPERIMENT=...`"


def _results(deployment: Deployment) -> Iterator[Row]:
    """The newest runs in the bucket."""
    bucket = results.listing(deployment)
    for run in bucket.runs[-_RUNS:]:
        state = "complete" if run.complete else "not complete"
        yield run.id[:8] if len(run.id) == 36 else run.id, f"{state}, {_moment(run.changed)}"
    if len(bucket.runs) > _RUNS:
        yield "", f"and {len(bucket.runs) - _RUNS} earlier: make results EXPERIMENT=..."
    if bucket.refusal:
        yield "", bucket.refusal


def _cost(deployment: Deployment) -> Iterator[Row]:
    """So far, and an hour."""
    costs = spent(deployment)
    if costs.since is None:
        yield "", "nothing is running"
        return
    per_hour = f"{costs.usd_per_hour:.2f} USD an hour now"
    yield "", f"{costs.amount} since {_moment(costs.since)}; {per_hour}"
    for part in costs.parts:
        if part.hours:
            yield str(part.group), f"{part.usd:.2f} USD: {part.formula}"


class _Cluster:
    """What the cluster's API knows, at one moment. Raises ApiException or HTTPError of urllib3."""

    def __init__(self, api: ApiClient, deployment: Deployment) -> None:
        self._api, self._deployment = api, deployment
        core = CoreV1Api(api)
        self._nodes: list[V1Node] = core.list_node(_request_timeout=_PATIENCE).items
        self._pods = cluster.pods(api)

    def nodes(self) -> Iterator[Row]:
        """A row for each group, and what keeps it from its size."""
        groups = {group.kind.value: group for group in nodes.groups(self._deployment)}
        for kind in dict.fromkeys((*groups, *map(_kind, self._nodes))):
            members = [node for node in self._nodes if _kind(node) == kind]
            ready = [node for node in members if _since(node, "Ready")]
            group = groups.get(kind)
            size = group.size if group else len(members)
            types = sorted({str((node.metadata.labels or {}).get(_TYPE)) for node in ready})
            oldest = min((node.metadata.creation_timestamp for node in ready), default=None)
            since = f": {', '.join(types)}, since {_moment(oldest)}" if oldest else ""
            yield kind, f"{len(ready)} of {size} ready{since}"
            if group and len(ready) < group.size:
                yield from _troubles(self._deployment, group)

    def claims(self) -> Iterator[Row]:
        """How many devices are given to whom."""
        for claim in ResourceV1Api(self._api).list_namespaced_resource_claim(NAMESPACE).items:
            allocation = claim.status and claim.status.allocation
            if allocation and allocation.devices:
                holders = ", ".join(each.name for each in claim.status.reserved_for or [])
                count = len(allocation.devices.results or [])
                yield "", f"{count} devices: {holders or 'nobody'}"
            else:
                yield "", f"{claim.metadata.name}: no devices yet"

    def jobs(self) -> Iterator[Row]:
        """Downloads, compiles, and the indexes of a sweep or of jobs."""
        jobs = cluster.jobs(self._api)
        for job in sorted(jobs, key=lambda job: str(job.metadata.creation_timestamp)):
            # Its digest tells a person nothing.
            yield job.metadata.name.rpartition("-")[0] or job.metadata.name, self._job(job)

    def services(self) -> Iterator[Row]:
        """Each variant's, ready or why not."""
        services = cluster.services(self._api, f"component={Component.VLLM}")
        for service in sorted(services, key=lambda each: str(each.metadata.name)):
            name = service.metadata.name
            members = [pod for pod in self._pods if (pod.metadata.labels or {}).get("app") == name]
            if not members:
                yield name, "no pod" if service.spec.replicas else "scaled to 0"
            for pod in members:
                since = _since(pod, "Ready")
                reason = pods.reason(self._api, pod) or "has ended"
                yield name, f"ready since {_moment(since)}" if since else reason

    def run(self) -> Iterator[Row]:
        """The benchmark's pod: its run, and its last line."""
        for pod in self._pods:
            if pod.metadata.name == benchmark_pod(self._deployment.experiment):
                yield pod.metadata.uid[:8], self._activity(pod)

    def _job(self, job: V1Job) -> str:
        status, spec = job.status, job.spec
        indexes = ""
        if spec.completion_mode == "Indexed":
            indexes = f"complete: {status.completed_indexes or 'none'} of {spec.completions}"
            if status.failed_indexes:
                indexes += f", failed: {status.failed_indexes}"
        if status.completion_time:
            return indexes or f"complete since {_moment(status.completion_time)}"
        if failure := cluster.failure(job):
            return "; ".join(filter(None, [f"failed: {failure}", indexes]))
        if spec.suspend:
            return "not begun: it waits until it is asked for"
        active = [
            pod
            for pod in self._pods
            if (pod.metadata.labels or {}).get(cluster.JOB_LABEL) == job.metadata.name
            and pod.status.phase not in cluster.OVER
        ]
        activity = "; ".join(self._activity(pod) for pod in active[:2]) or "waits for a pod"
        return "; ".join(filter(None, [indexes, activity]))

    def _activity(self, pod: V1Pod) -> str:
        """Why it is not ready, or the last line of its log, or how it ended."""
        if pod.status.phase == "Succeeded":
            return "has ended well"
        if reason := pods.reason(self._api, pod):
            return reason
        names = [status.name for status in pods.statuses(pod)]
        lines = (pods.last_line(self._api, pod, name) for name in reversed(names))
        return next((line for line in lines if line), "runs")


def _kind(node: V1Node) -> str:
    return str((node.metadata.labels or {}).get(NODE_GROUP_LABEL, _SYSTEM))


def _since(object_: Any, kind: str) -> datetime.datetime | None:
    """Since when a condition of an object holds; None if it does not."""
    for condition in object_.status.conditions or []:
        if condition.type == kind and condition.status == "True":
            time: datetime.datetime = condition.last_transition_time
            return time
    return None


def _moment(when: datetime.datetime) -> str:
    """A time in UTC: of today without the date."""
    when = when.astimezone(datetime.UTC)
    is_today = when.date() == datetime.datetime.now(datetime.UTC).date()
    return f"{when:%H:%M}" if is_today else f"{when:%Y-%m-%d %H:%M}"
