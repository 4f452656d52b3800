"""Starts, retries and gives up the indexes of a Job, as the Job controller does.

As with ``completionMode: Indexed``, ``backoffLimitPerIndex`` and rules of ``podFailurePolicy`` with
``FailIndex``: each index is retried alone, or not at all, and one that fails for good stops no
other. Kubernetes waits ten seconds and more before it retries; here an index that failed waits for
all that have not been tried.
"""

from __future__ import annotations

import contextlib
import time
from collections import deque
from collections.abc import Callable, Collection
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Final, Protocol

from rehearsal import RehearsalError
from rehearsal.processes import Process

_POLL_SECONDS: Final = 0.1


@dataclass(frozen=True)
class Attempt:
    """One pod of an index."""

    index: int
    number: int = 1
    """Counted from 1."""


class Observer(Protocol):
    """Is called with each event."""

    def started(self, attempt: Attempt) -> None:
        """Its pod runs."""

    def runs(self, attempt: Attempt, process: Process) -> None:
        """It still runs; this is its main process."""

    def complete(self, attempt: Attempt) -> None:
        """It has ended with status 0."""

    def failed(self, attempt: Attempt, status: int, *, retried: bool) -> None:
        """It has ended otherwise; -n if signal n killed it."""


def control(
    indexes: int,
    retries: int,
    at_once: int,
    start: Callable[[Attempt], AbstractContextManager[Process]],
    observer: Observer,
    seconds: float,
    final: Collection[int] = (),
) -> None:
    """Runs all indexes, at most ``at_once`` at the same time, each at most 1 + ``retries`` times.

    One that ends with a status in ``final`` is not tried again. ``start`` starts a pod, whose main
    process it gives, and ends what is left of it. Raises RehearsalError if that takes longer than
    ``seconds``.
    """
    deadline = time.monotonic() + seconds
    waiting = deque(map(Attempt, range(indexes)))
    running: dict[Attempt, tuple[contextlib.ExitStack, Process]] = {}
    with contextlib.ExitStack() as pods:
        while waiting or running:
            while waiting and len(running) < at_once:
                attempt = waiting.popleft()
                pod = pods.enter_context(contextlib.ExitStack())
                running[attempt] = pod, pod.enter_context(start(attempt))
                observer.started(attempt)
            for attempt, (pod, process) in list(running.items()):
                if process.poll() is None:
                    observer.runs(attempt, process)
                    continue
                del running[attempt]
                pod.close()
                if process.returncode == 0:
                    observer.complete(attempt)
                    continue
                retried = attempt.number <= retries and process.returncode not in final
                observer.failed(attempt, process.returncode, retried=retried)
                if retried:
                    waiting.append(Attempt(attempt.index, attempt.number + 1))
            if time.monotonic() > deadline:
                raise RehearsalError(f"did not end within {seconds:.0f} s")
            time.sleep(_POLL_SECONDS)
