"""``make status``: how everything is, on one screen; it changes nothing."""

import datetime
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from kubernetes.client import CoreV1Api, V1Job, V1Node, V1Pod

from charts.names import NODE_GROUP_LABEL, Component, benchmark_pod, node_label
from operations import cluster, guard, lifecycle, nodes, pods
from operations.account import Deployment, DeploymentError
from operations.cluster import Api, NoCluster, Unreachable, connected
from operations.console import print_table
from operations.nodes import Kind
from stacks.delivery import stack_regions

Row = tuple[str, str]
"""A name, which may be empty, and how it is."""
Section = tuple[str, list[Row]]

_PATIENCE: Final = (4, 20)
"""Seconds to reach the API, and for its answer."""
_READY: Final = frozenset({"CREATE_COMPLETE", "UPDATE_COMPLETE", "IMPORT_COMPLETE"})


def show(deployment: Deployment) -> int:
    """Prints the screen; returns the exit status."""
    now = datetime.datetime.now(datetime.UTC)
    print(f"{deployment.headline}, {now:%Y-%m-%d %H:%M} UTC", flush=True)
    print_sections(_sections(deployment))
    return 0


def print_sections(sections: Iterable[Section]) -> None:
    """Prints a row for each, with its title before the first."""
    print_table(
        (title if number == 0 else "", *row)
        for title, rows in sections
        for number, row in enumerate(rows)
    )


def running(deployment: Deployment) -> Iterator[Section]:
    """Everything billed by the hour, and what ends it, without the cluster's own API."""
    yield _section("nodes", _groups, deployment)
    yield _section("guard", _guards, deployment)


def _sections(deployment: Deployment) -> Iterator[Section]:
    """All that is known, by title: what cannot be asked says why."""
    yield _section("stacks", _stacks, deployment)
    try:
        with connected(deployment) as api:
            joined = CoreV1Api(api).list_node(_request_timeout=_PATIENCE).items
            yield _section("nodes", _nodes, deployment, joined)
            yield _section("jobs", _jobs, api)
            yield _section("services", _services, api)
            yield _section("run", _run, api, benchmark_pod(deployment.experiment))
    except NoCluster:
        pass
    except DeploymentError as error:
        hint = " (docs/runbook.md, Reach a private API)" if isinstance(error, Unreachable) else ""
        yield "cluster", [("", f"not known{hint}: {error}")]
        yield _section("nodes", _groups, deployment)
    yield _section("guard", _guards, deployment)


def _section(title: str, ask: Callable[..., Iterable[Row]], *of: Any) -> Section:
    """A section that cannot be known does not take the others along."""
    try:
        return title, [*ask(*of)]
    except DeploymentError as error:
        return title, [("", f"not known: {error}")]


def _stacks(deployment: Deployment) -> Iterator[Row]:
    """Complete stacks in one row, each other in its own."""
    complete, incomplete = [], []
    for name, region in stack_regions(deployment.experiment).items():
        stack = deployment.stack(name, region)
        if stack is None or lifecycle.owner(stack) != deployment.name:
            continue
        label = name.removeprefix(f"{deployment.name}-")
        if stack["StackStatus"] in _READY:
            complete.append(label)
        else:
            parts = (label, stack["StackStatus"], stack.get("StackStatusReason"))
            incomplete.append(("", ": ".join(filter(None, parts))))
    if complete:
        yield "", f"{', '.join(complete)}: complete"
    yield from incomplete
    if not complete and not incomplete:
        yield "", "nothing is deployed"


def _groups(deployment: Deployment) -> Iterator[Row]:
    for group in nodes.groups(deployment):
        yield group.kind.value, f"{group.size} asked for"
        yield from _troubles(group)


def _troubles(group: nodes.Group) -> Iterator[Row]:
    if group.status not in ("ACTIVE", "UPDATING"):
        yield group.kind.value, f"EKS: {group.status}"
    if group.size:
        for trouble in (*nodes.failures(group), *group.issues):
            yield group.kind.value, trouble


def _guards(deployment: Deployment) -> Iterator[Row]:
    sizes = {group.kind: group.size for group in nodes.groups(deployment)}
    for kind in Kind:
        if at := guard.find(deployment, kind):
            hours, minutes = divmod(round((at - nodes.now()).total_seconds() / 60), 60)
            yield kind.value, f"to 0 at {_moment(at)}, in {hours}:{minutes:02} h"
        elif sizes.get(kind) and guard.is_acting(deployment, kind):
            yield kind.value, "is ending them: it acts every 10 minutes"
        elif sizes.get(kind):
            yield kind.value, "none: its nodes run until `make stop EXPERIMENT=...`"


def _nodes(deployment: Deployment, joined: list[V1Node]) -> Iterator[Row]:
    members = Counter(map(_label, joined))
    ready = Counter(_label(node) for node in joined if cluster.condition(node, "Ready"))
    for group in nodes.groups(deployment):
        label = node_label(deployment.experiment, group.kind)
        yield group.kind.value, f"{ready[label]} of {group.size} ready"
        if ready[label] < group.size:
            yield from _troubles(group)
    if system := members["system"]:
        yield "system", f"{ready['system']} of {system} ready"


def _jobs(api: Api) -> Iterator[Row]:
    for job in cluster.jobs(api):
        # Its digest tells a person nothing.
        yield job.metadata.name.rpartition("-")[0] or job.metadata.name, _job(api, job)


def _job(api: Api, job: V1Job) -> str:
    status, indexes = job.status, ""
    if job.spec.completion_mode == "Indexed":
        indexes = f"complete: {status.completed_indexes or 'none'} of {job.spec.completions}"
        if status.failed_indexes:
            indexes += f", failed: {status.failed_indexes}"
    if status.completion_time:
        return indexes or f"complete since {_moment(status.completion_time)}"
    if failure := cluster.failure(job):
        last = cluster.pods_of(api, job)[-1:]
        activity = "; ".join([f"failed: {failure}", *(_activity(api, pod) for pod in last)])
    elif job.spec.suspend:
        return "not begun: it waits until it is asked for"
    else:
        pods_now = (p for p in cluster.pods_of(api, job) if p.status.phase not in cluster.OVER)
        activity = "; ".join(_activity(api, pod) for pod in pods_now) or "waits for a pod"
    return "; ".join(filter(None, [indexes, activity]))


def _services(api: Api) -> Iterator[Row]:
    services = cluster.services(api, f"component={Component.VLLM}")
    for service in sorted(services, key=lambda each: str(each.metadata.name)):
        name = service.metadata.name
        members = cluster.pods(api, f"app={name}")
        if not members:
            yield name, "no pod" if service.spec.replicas else "scaled to 0"
        for pod in members:
            ready = cluster.condition(pod, "Ready")
            reason = pods.reason(api, pod) or "has ended"
            yield name, f"ready since {_moment(ready.last_transition_time)}" if ready else reason


def _run(api: Api, name: str) -> Iterator[Row]:
    for pod in cluster.pods(api, f"app={name}"):
        yield pod.metadata.uid[:8], _activity(api, pod)


def _activity(api: Api, pod: V1Pod) -> str:
    """Why a pod is not ready, or the last line of its log, or how it ended."""
    if pod.status.phase == "Succeeded":
        return "has ended well"
    if reason := pods.reason(api, pod):
        return reason
    names = [status.name for status in pods.statuses(pod)]
    lines = (pods.last_line(api, pod, name) for name in reversed(names))
    return next((line for line in lines if line), "runs")


def _label(node: V1Node) -> str:
    return str((node.metadata.labels or {}).get(NODE_GROUP_LABEL, "system"))


def _moment(when: datetime.datetime) -> str:
    """A time in UTC: of today without the date."""
    when = when.astimezone(datetime.UTC)
    is_today = when.date() == datetime.datetime.now(datetime.UTC).date()
    return f"{when:%H:%M}" if is_today else f"{when:%Y-%m-%d %H:%M}"
