"""Why a pod is not ready, in words.

From what Kubernetes 1.35.4 writes: the scheduler's conditions (``pkg/scheduler/framework``:
``types.go`` and ``plugins``), the kubelet's container states and events (``pkg/kubelet``:
``kubelet_pods.go``, ``events/event.go``, ``images``, ``prober/prober.go``, ``eviction/helpers.go``,
``active_deadline.go``) and the claim controller's events (``pkg/controller/resourceclaim``).
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from kubernetes.client import ApiClient, ApiException, CoreV1Api, CoreV1Event, V1Pod

from charts.names import COMPILE_NODES, NODE_GROUP_LABEL, TRAINIUM_NODES

_KINDS: Final = {TRAINIUM_NODES: "Trainium node", COMPILE_NODES: "compile node"}
_SYSTEM: Final = "system node"

_ELSEWHERE: Final = ("node affinity/selector", "untolerated taint", "were unschedulable")
"""What the scheduler says of nodes of another kind, and of one that is not ready yet."""
_PLACES: Final = (
    ("anti-affinity", "waits until the pod that compiles or measures on the {kind} has ended"),
    ("cannot allocate all claims", "the {kind} has too few free devices for its claim"),
    ("Insufficient memory", "the {kind} has too little memory free"),
    ("Insufficient cpu", "the {kind} has too few CPUs free"),
    ("Insufficient ephemeral-storage", "the {kind} has too little disk free"),
    ("unbound immediate PersistentVolumeClaims", "its volume is not bound to its claim yet"),
)
"""What the scheduler says of nodes that could be its, the most telling first."""

_IMAGE: Final = frozenset(
    {
        "ErrImagePull",
        "ImagePullBackOff",
        "InvalidImageName",
        "ImageInspectError",
        "ErrImageNeverPull",
    }
)
_STARTING: Final = {
    "FailedMount": "a volume is not mounted",
    "FailedAttachVolume": "a volume is not attached",
    "FailedPrepareDynamicResources": "its devices are not prepared",
    "FailedCreatePodSandBox": "it gets no network",
    "NetworkNotReady": "its node has no network yet",
    "FailedResourceClaimCreation": "its device claim is not made",
    "Failed": "a container is not made",
    "Pulling": "brings an image",
    "Pulled": "its containers start",
    "Created": "its containers start",
    "Started": "its containers start",
    "Scheduled": "its containers are made",
}
"""What an event says of a pod none of whose containers runs yet."""
_LONGEST: Final = 300
"""Characters of another program's message."""


def explained(api: ApiClient, pod: V1Pod) -> str | None:
    """``why``, with the events and the last log line that the API has of ``pod``.

    Raises ApiException or urllib3's HTTPError. A log that cannot be read is left out.
    """
    if why(pod) is None:
        return None
    core, metadata = CoreV1Api(api), pod.metadata
    events = core.list_namespaced_event(
        metadata.namespace, field_selector=f"involvedObject.uid={metadata.uid}"
    ).items
    container = working(pod)
    return why(pod, events, last_line(api, pod, container) if container else None)


def last_line(api: ApiClient, pod: V1Pod, container: str) -> str | None:
    """The last line of a container's log; None where there is none, or no kubelet answers.

    Raises urllib3's HTTPError.
    """
    try:
        lines: str = CoreV1Api(api).read_namespaced_pod_log(
            pod.metadata.name, pod.metadata.namespace, container=container, tail_lines=1
        )
    except ApiException:
        return None
    return _short(lines) or None


def why(pod: V1Pod, events: Iterable[CoreV1Event] = (), said: str | None = None) -> str | None:
    """Why ``pod`` is not ready, in one line; None if it is, or has ended well.

    ``said`` is the last log line of the container that ``working`` names.
    """
    status = pod.status
    if status.phase == "Succeeded" or _condition(pod, "Ready") == "True":
        return None
    if pod.metadata.deletion_timestamp:
        return "is being ended"
    if status.phase == "Failed":
        return _failed(pod)
    newest = sorted((e for e in events if _of(e, pod)), key=_when, reverse=True)
    if not pod.spec.node_name:
        return _unplaced(pod, newest)
    for container in _unready(pod):
        return _container(container, newest, said)
    return _starting(newest) or "its containers are made"


def working(pod: V1Pod) -> str | None:
    """The container that runs and is not ready yet, whose log says what it waits for."""
    return next((s.name for s in _unready(pod) if s.state and s.state.running), None)


def _unready(pod: V1Pod) -> Iterator[Any]:
    """Statuses of containers that keep ``pod`` from being ready, in the order of their start.

    A pod's containers start once all of its init containers have ended, or, if they restart always,
    have started.
    """
    sidecars = {c.name for c in pod.spec.init_containers or [] if c.restart_policy == "Always"}
    begins = []
    for status in pod.status.init_container_statuses or []:
        ended = status.state and status.state.terminated
        if status.name in sidecars:
            begins += [status] if status.started and not status.ready else []
            done = bool(status.started)
        else:
            done = bool(ended and ended.exit_code == 0)
        if not done:
            yield status
            return
    statuses = pod.status.container_statuses or []
    yield from (status for status in (*statuses, *begins) if not status.ready)


def _container(status: Any, events: Sequence[CoreV1Event], said: str | None) -> str:
    name, state = status.name, status.state
    if not (state and (state.running or state.terminated)):
        return _waiting(status, events)
    if state.terminated:
        return f"{name} {_ended(state.terminated)}"
    doing = f"{name} runs" if status.started is not False else f"{name} starts"
    probe = next((e for e in events if e.reason == "Unhealthy" and _concerns(e, name)), None)
    words = [doing]
    if probe:
        words.append(_short(probe.message))
    if said:
        words.append(_short(said))
    if status.restart_count:
        last = status.last_state and status.last_state.terminated
        words.append(f"restarted {_times(status.restart_count)}{_last(last)}")
    return "; ".join([": ".join(words[:2]), *words[2:]])


def _waiting(status: Any, events: Sequence[CoreV1Event]) -> str:
    name, waiting = status.name, status.state and status.state.waiting
    reason, message = (waiting.reason, waiting.message) if waiting else (None, None)
    last = status.last_state and status.last_state.terminated
    if reason in _IMAGE:
        return f"the image of {name} does not come: {_short(message or reason)}"
    if reason == "CrashLoopBackOff":
        return (
            f"{name} {_ended(last) if last else 'has ended'} "
            f"(restarted {_times(status.restart_count)}), and is tried again in a while"
        )
    if reason in ("ContainerCreating", "PodInitializing", None):
        started = _starting(events) or "its containers are made"
        return f"{started}; {name} {_ended(last)} before" if last else started
    return f"{name}: {reason}: {_short(message or 'no more is said')}"


def _starting(events: Sequence[CoreV1Event]) -> str | None:
    """What the newest event says of a pod that has not started."""
    for event in events:
        if words := _STARTING.get(event.reason):
            telling = event.type == "Warning" or event.reason == "Pulling"
            return f"{words}: {_short(event.message)}" if telling else words
    return None


def _ended(terminated: Any) -> str:
    """How a container ended: with which status, or for want of memory, and its last words."""
    code = terminated.exit_code
    if terminated.reason == "OOMKilled":
        words = f"was killed: it took more memory than its limit (status {code})"
    elif terminated.signal:
        words = f"ended by signal {terminated.signal}"
    else:
        words = f"ended with status {code}"
    lines = (terminated.message or "").strip().splitlines()
    return f"{words}: {_short(lines[-1])}" if lines else words


def _last(terminated: Any) -> str:
    return f", the last one {_ended(terminated)}" if terminated else ""


def _failed(pod: V1Pod) -> str:
    """A pod's own reason, such as Evicted, or the container that failed."""
    if pod.status.reason == "Evicted":
        return f"was evicted: {_short(pod.status.message or '')}".rstrip(": ")
    if pod.status.reason:
        return f"failed ({pod.status.reason}): {_short(pod.status.message or '')}".rstrip(": ")
    statuses = [*(pod.status.init_container_statuses or []), *(pod.status.container_statuses or [])]
    for status in statuses:
        ended = status.state and status.state.terminated
        if ended and ended.exit_code:
            return f"failed: {status.name} {_ended(ended)}"
    return "failed"


def _unplaced(pod: V1Pod, events: Sequence[CoreV1Event]) -> str:
    said = next(
        (c.message or "" for c in pod.status.conditions or [] if c.type == "PodScheduled"), ""
    )
    if not said:
        return _starting(events) or "waits for the scheduler"
    kind = _KINDS.get((pod.spec.node_selector or {}).get(NODE_GROUP_LABEL, ""), _SYSTEM)
    reasons = _reasons(said)
    for fragment, words in _PLACES:
        if any(fragment in reason for reason in reasons):
            return words.format(kind=kind)
    others = [r for r in reasons if not any(fragment in r for fragment in _ELSEWHERE)]
    if others and not said.startswith("no nodes available"):
        return f"has no place: {_short(', '.join(others))}"
    return f"no {kind} is ready: {_absent(kind)}"


def _absent(kind: str) -> str:
    """Why there may be no node: the system nodes' group is never at 0."""
    if kind == _SYSTEM:
        return "they are on their way, or cordoned"
    return "their group is at 0, or the node is on its way"


def _reasons(said: str) -> list[str]:
    """The scheduler's reasons: ``0/3 nodes are available: 1 this, 2 that. preemption: ...``."""
    body = said.partition(" nodes are available: ")[2] or said
    body = body.partition(". ")[0].rstrip(".")
    return [re.sub(r"^\d+ ", "", reason) for reason in body.split(", ")]


def _of(event: CoreV1Event, pod: V1Pod) -> bool:
    return bool(event.involved_object.uid == pod.metadata.uid)


def _concerns(event: CoreV1Event, container: str) -> bool:
    """Kubelets name the container as ``spec.containers{vllm}``."""
    return f"{{{container}}}" in (event.involved_object.field_path or "")


def _when(event: CoreV1Event) -> datetime.datetime:
    """When it was last seen. The scheduler writes another time than kubelets."""
    series = event.series and event.series.last_observed_time
    found: datetime.datetime = (
        series or event.last_timestamp or event.event_time or event.metadata.creation_timestamp
    )
    return found


def _condition(pod: V1Pod, kind: str) -> str | None:
    return next((c.status for c in pod.status.conditions or [] if c.type == kind), None)


def _short(message: str) -> str:
    """One line of a sensible length."""
    line = " ".join(message.split())
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST]}..."


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"
