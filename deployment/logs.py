"""``make logs``: the logs of the experiment's pods, without kubectl."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from kubernetes.client import V1Pod

from deployment import cluster, pods
from deployment.account import Deployment, DeploymentError
from deployment.cluster import connected
from spectap.printing import printable

_LABELS: Final = ("app", "step", "component", "batch.kubernetes.io/job-name")
"""Labels whose values a person may name: of a service, ``download``, ``compile``, of a Job."""
_LINES: Final = 200
_LINES_OF_ALL: Final = 20
"""Of each container, where nothing is named or the container was restarted since."""


def show(deployment: Deployment, name: str | None) -> int:
    """Prints the logs of what is called ``name``, or of what runs now; returns the exit status."""
    with connected(deployment) as api:
        for pod in selected(cluster.pods(api), name):
            for container, previous in sources(pod, running=name is None):
                lines = _LINES if name and not previous else _LINES_OF_ALL
                log = pods.log(api, pod, container, lines, previous=previous)
                before = " (before its restart)" if previous else ""
                for line in log.split("\n")[: -1 if log.endswith("\n") else None]:
                    print(printable(f"{pod.metadata.name}/{container}{before} | {line}"))
            if reason := pods.reason(api, pod):
                print(printable(f"{pod.metadata.name}: {reason}"), flush=True)
    return 0


def selected(every: Iterable[V1Pod], name: str | None) -> list[V1Pod]:
    """The pods that are called ``name``; without it, those that have not ended well.

    A name is that of a service, a Job, a step, a component or a pod, or how a pod's name begins.
    Raises DeploymentError if there is none.
    """
    ordered = sorted(every, key=lambda pod: str(pod.metadata.creation_timestamp))
    if name is None:
        current = [pod for pod in ordered if pod.status.phase != "Succeeded"]
        if not current:
            raise DeploymentError("no pod runs or waits; OF=NAME shows one that has ended")
        return current
    matches = [pod for pod in ordered if name in _names(pod)] or [
        pod for pod in ordered if pod.metadata.name.startswith(name)
    ]
    if not matches:
        names = sorted({each for pod in ordered for each in _names(pod)}) or ["nothing"]
        raise DeploymentError(f"OF = {name!r}: no pod is called so; there is {', '.join(names)}")
    return matches


def sources(pod: V1Pod, *, running: bool = False) -> Iterator[tuple[str, bool]]:
    """Containers that have a log, in the order of their start, and whether it is the previous one.

    The log of a container that runs again comes after the one before its restart. ``running``:
    only of containers that have not ended.
    """
    for status in pods.statuses(pod):
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
