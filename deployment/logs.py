"""``make logs``: the logs of the experiment's pods, without kubectl."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from kubernetes.client import ApiClient, ApiException, CoreV1Api, V1Pod
from urllib3.exceptions import HTTPError

from charts.names import NAMESPACE
from deployment import cluster, pods
from deployment.account import Deployment, DeploymentError
from deployment.cluster import connected, kubernetes_errors
from spectap.printing import printable

_LABELS: Final = ("app", "step", "component", "batch.kubernetes.io/job-name")
"""Labels whose values a person may name: of a service, ``download``, ``compile``, of a Job."""
_TAIL: Final = 200
_TAIL_OF_ALL: Final = 20
"""Lines of each container, where nothing is named."""
_POLL_SECONDS: Final = 3.0


@dataclass(frozen=True)
class Source:
    """One start of one container."""

    pod: str
    container: str
    restarts: int
    previous: bool = False
    """Whether it is the one before the one that runs."""

    def __str__(self) -> str:
        before = " (before its restart)" if self.previous else ""
        return f"{self.pod}/{self.container}{before}"


def show(deployment: Deployment, name: str | None, *, follow: bool) -> int:
    """Prints the logs of what is called ``name``, or of what runs now; returns the exit status.

    Raises DeploymentError.
    """
    with connected(deployment) as api, kubernetes_errors():
        printer = _Printer(api, name)
        if follow:
            printer.follow()
        else:
            printer.print_once()
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
    fitting = [pod for pod in ordered if name in _names(pod)] or [
        pod for pod in ordered if pod.metadata.name.startswith(name)
    ]
    if not fitting:
        names = sorted({each for pod in ordered for each in _names(pod)}) or ["nothing"]
        raise DeploymentError(f"OF = {name!r}: no pod is called so; there is {', '.join(names)}")
    return fitting


def sources(pod: V1Pod, *, running: bool = False) -> Iterator[Source]:
    """The containers of ``pod`` that have a log, in the order of their start.

    ``running``: only those that run. One that runs again comes after the one before it.
    """
    for status in pods.statuses(pod):
        state, last = status.state, status.last_state and status.last_state.terminated
        is_running, has_ended = bool(state and state.running), bool(state and state.terminated)
        if running and not is_running and not (last and not has_ended):
            continue
        if last and is_running:
            yield Source(pod.metadata.name, status.name, status.restart_count, previous=True)
        if is_running or last or has_ended:
            yield Source(pod.metadata.name, status.name, status.restart_count)


def _names(pod: V1Pod) -> set[str]:
    labels = pod.metadata.labels or {}
    return {labels[key] for key in _LABELS if key in labels} | {pod.metadata.name}


class _Printer:
    """Prints the logs of the pods that are called ``name``, or of all that run."""

    def __init__(self, api: ApiClient, name: str | None) -> None:
        self._api, self._name = api, name
        self._tail = _TAIL_OF_ALL if name is None else _TAIL
        self._threads: dict[Source, threading.Thread] = {}
        self._reasons: dict[str, str] = {}
        self._writing = threading.Lock()

    def print_once(self) -> None:
        """What there is now, and why a pod is not ready."""
        for pod in selected(cluster.pods(self._api), self._name):
            for source in sources(pod, running=self._name is None):
                tail = _TAIL_OF_ALL if source.previous else self._tail
                self._print(source, tail_lines=tail)
            if reason := pods.reason(self._api, pod):
                self._say(f"{pod.metadata.name}: {reason}")

    def follow(self) -> None:
        """As logs are written, also of pods that come later, until all have ended."""
        while True:
            try:
                followed = selected(cluster.pods(self._api), self._name)
            except DeploymentError:  # nothing runs any more
                followed = []
            for pod in followed:
                self._begin(pod)
            is_alive = any(thread.is_alive() for thread in self._threads.values())
            if not is_alive and all(pod.status.phase in cluster.OVER for pod in followed):
                return
            time.sleep(_POLL_SECONDS)

    def _begin(self, pod: V1Pod) -> None:
        for source in sources(pod, running=self._name is None):
            if source not in self._threads:
                thread = threading.Thread(target=self._follow, args=(source,), daemon=True)
                self._threads[source] = thread
                thread.start()
        name, reason = pod.metadata.name, pods.reason(self._api, pod)
        # What a container's log says is printed already.
        if reason and pods.working(pod) is None and self._reasons.get(name) != reason:
            self._say(f"{name}: {reason}")
            self._reasons[name] = reason

    def _follow(self, source: Source) -> None:
        try:
            self._print(source, follow=not source.previous, tail_lines=self._tail)
        except (ApiException, HTTPError) as error:
            self._say(f"{source}: its log ends here: {str(error).splitlines()[0]}")

    def _print(self, source: Source, **options: Any) -> None:
        """The lines of a log, as they come; nothing of a container that is just gone."""
        try:
            answer = CoreV1Api(self._api).read_namespaced_pod_log(
                source.pod,
                NAMESPACE,
                container=source.container,
                previous=source.previous,
                _preload_content=False,
                **options,
            )
        except ApiException as error:
            if error.status in (400, 404):
                return
            raise
        incomplete = b""
        for chunk in answer.stream(amt=None):
            *lines, incomplete = (incomplete + chunk).split(b"\n")
            for line in lines:
                self._say(f"{source} | {line.decode(errors='replace')}")
        if incomplete:
            self._say(f"{source} | {incomplete.decode(errors='replace')}")

    def _say(self, line: str) -> None:
        with self._writing:
            print(printable(line), flush=True)
