"""Why a pod is not ready, in Kubernetes' own words, and what its containers have logged."""

import datetime
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from kubernetes.client import CoreV1Api, CoreV1Event, V1Pod

from operations import cluster
from operations.account import Deployment, DeploymentError
from operations.cluster import Api, Unreachable, connected
from spectap.wording import printable

_LONGEST: Final = 300
"""Characters of another program's message."""
_LABELS: Final = ("app", "step", "component", "batch.kubernetes.io/job-name")
"""Labels whose values a person may name: of a service, ``download``, ``compile``, of a Job."""
_LINES: Final = 200
_LAST_WORDS: Final = 10
"""Lines of the log of a container that failed."""
_SEARCHED: Final = 500
"""Lines in which the compiler's error is looked for: the other ranks then fail with many more."""
_LINES_OF_ALL: Final = 20
"""Lines of each container, where nothing is named or the container was restarted since."""
_ERRORS: Final = {
    r"NCC_EVRF009|NCC_EOOM00\d|exceeds HBM limit": "weights, KV cache and activations exceed a "
    "core's memory: lower serving.batch or serving.length, or raise serving.tensor_parallel",
    r"NCC_EARG001": "the compiler does not support this serving.logical_core_size",
    r"NCC_IINAR001": "a graph fails at -O1 and may compile at -O2 or -O3: add the level to the "
    "flags of all variants in experiment/runtimes/",
    r"NCC_I[A-Z]+\d+": "the compiler has a defect, and trying again seldom helps: take other "
    "shapes, or report it to aws-neuron-sdk",
    # In bash's words a child that is killed has its script and line before it.
    r"\[F137\]|neuronx-cc.*failed with -9|(?m:^(.*: line \d+: +\d+ )?Killed\b)": "the "
    "compiler had too little memory: compile fewer graphs at once, or on a larger instance",
    r"NRT_RESOURCE|nrt_tensor_allocate": "the graphs and weights do not fit into the devices' "
    "memory: lower serving.batch or serving.length",
    r"neuronx-cc.*(failed with|exit status) 70\b|tp_barrier": "a compiler crashed: try again "
    "by the same command, for what has compiled is kept; if it fails again, look for an NCC_ code "
    "in its log",
}
"""Errors of Neuron's compiler, the most telling first: that at ``tp_barrier`` follows another.

From its list of error codes (awsdocs-neuron v2.33.0, ``compiler/error-codes``) and reports:
vllm-neuron 16 and b3a5a71f (README.md of Qwen3.5), aws-neuron-sdk 706, 1222 and 1369, and
optimum-neuron 668."""


def reason(api: Api, pod: V1Pod) -> str | None:
    """Why ``pod`` is not ready, with the events and the last log line that the API has of it.

    None if it is ready or has ended well. A log that cannot be read is left out. Raises
    DeploymentError.
    """
    if why(pod) is None:
        return None
    events = CoreV1Api(api).list_namespaced_event(
        api.namespace, field_selector=f"involvedObject.uid={pod.metadata.uid}"
    )
    container = working(pod)
    why_not = why(pod, events.items, last_line(api, pod, container) if container else "")
    failed = _failed_container(pod)
    text = _readable_log(api, pod, failed[0], _SEARCHED, previous=failed[2]) if failed else ""
    return ". ".join(filter(None, (why_not, meaning(text))))


def why(pod: V1Pod, events: Iterable[CoreV1Event] = (), line: str = "") -> str | None:
    """Why the pod waits, by these events and the last log line of the container that works."""
    conditions = {condition.type: condition for condition in pod.status.conditions or []}
    ready, scheduled = conditions.get("Ready"), conditions.get("PodScheduled")
    if pod.status.phase == "Succeeded" or (ready and ready.status == "True"):
        return None
    if pod.metadata.deletion_timestamp:
        return "is being ended"
    if pod.status.phase == "Failed":
        return _failed(pod)
    newest = max(
        (event for event in events if event.involved_object.uid == pod.metadata.uid),
        key=_time,
        default=None,
    )
    if pod.spec.node_name:
        for container in _unready(pod):
            return _container(container, newest, line)
    # The scheduler repeats its message as an event only now and then.
    message = scheduled.message if scheduled else None
    return _event(newest) or _short(message or "") or "waits for Kubernetes"


def working(pod: V1Pod) -> str | None:
    """The container that runs and is not ready yet, whose log says what it waits for."""
    return next((s.name for s in _unready(pod) if s.state and s.state.running), None)


def meaning(log: str) -> str:
    """Meaning of the error in ``log``, and what to do; empty where it has none of these."""
    for pattern, text in _ERRORS.items():
        if match := re.search(pattern, log):
            return f"{match[0][-60:]}: {text}"
    return ""


def statuses(pod: V1Pod) -> list[Any]:
    """Statuses of all containers, in the order of their start."""
    return [*(pod.status.init_container_statuses or []), *(pod.status.container_statuses or [])]


def restarts(pod: V1Pod) -> int:
    """Restarts of the container that was restarted most often."""
    return max((status.restart_count for status in statuses(pod)), default=0)


def log(api: Api, pod: V1Pod, container: str, lines: int, *, previous: bool = False) -> str:
    """The last lines; empty if there is no log to be had."""
    try:
        answer = CoreV1Api(api).read_namespaced_pod_log(
            pod.metadata.name,
            api.namespace,
            container=container,
            tail_lines=lines,
            previous=previous,
            _preload_content=False,  # the client fails on bytes that are not UTF-8
        )
    except DeploymentError as error:
        if error.code in ("400", "404", "500"):  # no such container yet, or no kubelet to ask
            return ""
        raise
    return str(answer.data.decode(errors="replace"))


def last_line(api: Api, pod: V1Pod, container: str) -> str:
    """The last line of a container's log; empty where it cannot be read. Raises Unreachable."""
    return _short(_readable_log(api, pod, container, 1))


def _readable_log(
    api: Api, pod: V1Pod, container: str, lines: int, *, previous: bool = False
) -> str:
    try:
        return log(api, pod, container, lines, previous=previous)
    except Unreachable:
        raise
    except DeploymentError:
        return ""


def last_words(api: Api, pod: V1Pod) -> str:
    """The container of ``pod`` that failed last, the end of its log, and what its error means."""
    failed = _failed_container(pod)
    if failed is None:
        return f"{pod.metadata.name} ended: {pod.status.reason or pod.status.phase}"
    container, terminated, is_previous = failed
    text = log(api, pod, container, _SEARCHED, previous=is_previous).rstrip()
    begin = f"{pod.metadata.name}, container {container}, ended with status {terminated.exit_code}"
    last = [f"  {line}" for line in text.splitlines()[-_LAST_WORDS:]]
    return "\n".join(filter(None, [begin, *last, meaning(text)]))


def _failed_container(pod: V1Pod) -> tuple[str, Any, bool] | None:
    """The container that failed last, how it ended, and whether it runs again since."""
    ended = [
        (status.name, state, bool(is_previous))
        for status in statuses(pod)
        for is_previous, container_state in enumerate((status.state, status.last_state))
        if container_state and (state := container_state.terminated) and state.exit_code
    ]
    return max(ended, key=lambda each: (each[1].finished_at, each[0]), default=None)


def _unready(pod: V1Pod) -> Iterator[Any]:
    """Statuses of containers that keep ``pod`` from being ready, in the order of their start.

    A pod's containers start once all of its init containers have ended, or, if they restart always,
    have started.
    """
    sidecars = {c.name for c in pod.spec.init_containers or [] if c.restart_policy == "Always"}
    unready_sidecars = []
    for status in pod.status.init_container_statuses or []:
        terminated = status.state and status.state.terminated
        if status.name in sidecars and status.started:
            unready_sidecars += [] if status.ready else [status]
        elif status.name in sidecars or not (terminated and terminated.exit_code == 0):
            yield status
            return
    yield from (status for status in pod.status.container_statuses or [] if not status.ready)
    yield from unready_sidecars


def _container(status: Any, event: CoreV1Event | None, line: str) -> str:
    state, last = status.state, status.last_state and status.last_state.terminated
    if state and state.terminated:
        return f"{status.name} {_ended(state.terminated)}"
    if state and state.running:
        parts = [status.name + (" starts" if status.started is False else " runs"), line]
        if event and event.reason == "Unhealthy":
            parts.append(_short(event.message))
    else:
        waiting = state and state.waiting
        reason = waiting.reason if waiting else None
        if reason in (None, "ContainerCreating", "PodInitializing"):
            parts = [_event(event) or f"{status.name} waits"]
        else:
            parts = [f"{status.name} {reason}", _short(waiting.message or "")]
    if last:
        parts.append(f"restarted {status.restart_count} times, before {_ended(last)}")
    return ": ".join(filter(None, parts))


def _event(event: CoreV1Event | None) -> str:
    return f"{event.reason}: {_short(event.message or '')}" if event else ""


def _ended(terminated: Any) -> str:
    signal = f" by signal {terminated.signal}" if terminated.signal else ""
    words = f"ended{signal} with status {terminated.exit_code} ({terminated.reason})"
    lines = (terminated.message or "").strip().splitlines()
    return f"{words}: {_short(lines[-1])}" if lines else words


def _failed(pod: V1Pod) -> str:
    if pod.status.reason:
        return f"failed: {pod.status.reason}: {_short(pod.status.message or '')}".rstrip(": ")
    failed = _failed_container(pod)
    return f"failed: {failed[0]} {_ended(failed[1])}" if failed else "failed"


def _time(event: CoreV1Event) -> datetime.datetime:
    """When it was last seen. The scheduler writes another time than kubelets."""
    series = event.series and event.series.last_observed_time
    time: datetime.datetime = (
        series or event.last_timestamp or event.event_time or event.metadata.creation_timestamp
    )
    return time


def _short(message: str) -> str:
    line = " ".join(message.split())
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST]}..."


def show_logs(deployment: Deployment, name: str | None) -> int:
    """``make logs``: prints those of ``name``, or of what runs now; returns the exit status."""
    with connected(deployment) as api:
        for pod in selected(cluster.pods(api), name):
            for container, previous in sources(pod, running=name is None):
                lines = _LINES if name and not previous else _LINES_OF_ALL
                text = log(api, pod, container, lines, previous=previous)
                before = " (before its restart)" if previous else ""
                for line in text.split("\n")[: -1 if text.endswith("\n") else None]:
                    print(printable(f"{pod.metadata.name}/{container}{before} | {line}"))
            if problem := reason(api, pod):
                print(printable(f"{pod.metadata.name}: {problem}"), flush=True)
    return 0


def selected(every: Sequence[V1Pod], name: str | None) -> list[V1Pod]:
    """The pods that are called ``name``; without it, those that have not ended well.

    A name is that of a service, a Job, a step, a component or a pod, or how a pod's name begins.
    Raises DeploymentError if there is none.
    """
    if name is None:
        current = [pod for pod in every if pod.status.phase != "Succeeded"]
        if not current:
            raise DeploymentError("no pod runs or waits; OF=NAME shows one that has ended")
        return current
    matches = [pod for pod in every if name in _names(pod)] or [
        pod for pod in every if pod.metadata.name.startswith(name)
    ]
    if not matches:
        names = sorted({each for pod in every for each in _names(pod)}) or ["nothing"]
        raise DeploymentError(f"OF = {name!r}: no pod is called so; there is {', '.join(names)}")
    return matches


def sources(pod: V1Pod, *, running: bool = False) -> Iterator[tuple[str, bool]]:
    """Containers that have a log, in the order of their start, and whether it is the previous one.

    The log of a container that runs again comes after the one before its restart. ``running``:
    only of containers that have not ended.
    """
    for status in statuses(pod):
        state, last = status.state, status.last_state and status.last_state.terminated
        if running and state and state.terminated:
            continue
        if last and state and state.running:
            yield status.name, True
        if last or (state and (state.running or state.terminated)):
            yield status.name, False


def _names(pod: V1Pod) -> set[str]:
    labels = pod.metadata.labels or {}
    return {labels[key] for key in _LABELS if key in labels} | {pod.metadata.name}
