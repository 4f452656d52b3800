"""The logs of the experiment's pods, without kubectl."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from kubernetes.client import ApiClient, ApiException, CoreV1Api, V1Pod
from urllib3.exceptions import HTTPError

from charts.names import NAMESPACE
from deployment import reasons
from deployment.cluster import connected, kubernetes_in_words
from deployment.errors import DeploymentError
from deployment.place import Place
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


def show(place: Place, of: str | None, *, follow: bool) -> int:
    """``make logs``: prints the logs of what is called ``of``, or of what goes on now.

    Returns the exit status. Raises DeploymentError.
    """
    with connected(place) as api, kubernetes_in_words():
        pods = selected(_pods(api), of)
        if follow:
            _Following(api, of).run()
            return 0
        for pod in pods:
            _print(api, pod, of)
    return 0


def selected(pods: Iterable[V1Pod], of: str | None) -> list[V1Pod]:
    """The pods that are called ``of``; without it, those that have not ended well.

    A name is that of a service, a Job, a step, a component or a pod, or how a pod's name begins.
    Raises DeploymentError if there is none.
    """
    every = sorted(pods, key=lambda pod: str(pod.metadata.creation_timestamp))
    if of is None:
        fitting = [pod for pod in every if pod.status.phase != "Succeeded"]
        if not fitting:
            raise DeploymentError("no pod runs or waits; OF=NAME shows one that has ended")
        return fitting
    fitting = [pod for pod in every if of in _names(pod)] or [
        pod for pod in every if pod.metadata.name.startswith(of)
    ]
    if not fitting:
        there = sorted({name for pod in every for name in _names(pod)}) or ["nothing"]
        raise DeploymentError(f"OF = {of!r}: no pod is called so; there is {', '.join(there)}")
    return fitting


def sources(pod: V1Pod, *, running: bool = False) -> Iterator[Source]:
    """The containers of ``pod`` that have a log, in the order of their start.

    ``running``: only those that run. One that runs again comes after the one before it.
    """
    status = pod.status
    for each in (*(status.init_container_statuses or []), *(status.container_statuses or [])):
        state, last = each.state, each.last_state and each.last_state.terminated
        now = bool(state and state.running)
        if running and not now and not (last and not (state and state.terminated)):
            continue
        if last and now:
            yield Source(pod.metadata.name, each.name, each.restart_count, previous=True)
        if now or last or (state and state.terminated):
            yield Source(pod.metadata.name, each.name, each.restart_count)


def _names(pod: V1Pod) -> set[str]:
    labels = pod.metadata.labels or {}
    return {labels[key] for key in _LABELS if key in labels} | {pod.metadata.name}


def _pods(api: ApiClient) -> list[V1Pod]:
    found: list[V1Pod] = CoreV1Api(api).list_namespaced_pod(NAMESPACE).items
    return found


def _print(api: ApiClient, pod: V1Pod, of: str | None) -> None:
    """Prints the logs of one pod, and why it is not ready if it is not."""
    for source in sources(pod, running=of is None):
        tail = _TAIL_OF_ALL if of is None or source.previous else _TAIL
        for line in _lines(api, source, tail_lines=tail):
            print(printable(f"{source} | {line}"))
    if reason := reasons.explained(api, pod):
        print(printable(f"{pod.metadata.name}: {reason}"), flush=True)


def _lines(api: ApiClient, source: Source, **options: Any) -> Iterator[str]:
    """The lines of a log, as they come; nothing of a container that is just gone."""
    try:
        answer = CoreV1Api(api).read_namespaced_pod_log(
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
    rest = b""
    for chunk in answer.stream(amt=None):
        *whole, rest = (rest + chunk).split(b"\n")
        yield from (line.decode(errors="replace") for line in whole)
    if rest:
        yield rest.decode(errors="replace")


class _Following:
    """Prints logs as they are written, of pods and containers that come later, too."""

    def __init__(self, api: ApiClient, of: str | None) -> None:
        self._api, self._of = api, of
        self._threads: dict[Source, threading.Thread] = {}
        self._said: dict[str, str] = {}
        self._writing = threading.Lock()

    def run(self) -> None:
        """Returns when all that it follows has ended."""
        while True:
            try:
                pods = selected(_pods(self._api), self._of)
            except DeploymentError:  # nothing goes on any more
                pods = []
            for pod in pods:
                self._begin(pod)
            alive = [thread for thread in self._threads.values() if thread.is_alive()]
            if not alive and all(pod.status.phase in ("Succeeded", "Failed") for pod in pods):
                return
            time.sleep(_POLL_SECONDS)

    def _begin(self, pod: V1Pod) -> None:
        name, reason = pod.metadata.name, reasons.explained(self._api, pod) or ""
        for source in sources(pod, running=self._of is None):
            if source not in self._threads:
                thread = threading.Thread(target=self._follow, args=(source,), daemon=True)
                self._threads[source] = thread
                thread.start()
        # What a container's log says stands above already.
        if reason and reasons.working(pod) is None and self._said.get(name) != reason:
            self._say(f"{name}: {reason}")
            self._said[name] = reason

    def _follow(self, source: Source) -> None:
        tail = _TAIL_OF_ALL if self._of is None else _TAIL
        try:
            for line in _lines(self._api, source, follow=not source.previous, tail_lines=tail):
                self._say(f"{source} | {line}")
        except (ApiException, HTTPError) as error:
            self._say(f"{source}: its log ends here: {str(error).splitlines()[0]}")

    def _say(self, line: str) -> None:
        with self._writing:
            print(printable(line), flush=True)
