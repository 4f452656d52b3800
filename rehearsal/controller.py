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
from collections.abc import Callable, Collection, Generator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Final

from rehearsal import RehearsalError
from rehearsal.processes import Process

_POLL_SECONDS: Final = 0.1


@dataclass(frozen=True)
class Attempt:
    """One pod of an index."""

    index: int
    number: int = 1
    """Counted from 1."""


@dataclass(frozen=True)
class Event:
    """A pod has started, is still running, or has ended and is gone."""

    attempt: Attempt
    process: Process
    """The pod's main process."""
    started: bool = False
    retried: bool = False
    """Whether it has failed and is tried again."""

    @property
    def status(self) -> int | None:
        """Of a pod that has ended; -n if signal n killed it."""
        return self.process.returncode


def control(
    indexes: int,
    retries: int,
    at_once: int,
    start: Callable[[Attempt], AbstractContextManager[Process]],
    seconds: float,
    final: Collection[int] = (),
) -> Generator[Event]:
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
                process = pod.enter_context(start(attempt))
                running[attempt] = pod, process
                yield Event(attempt, process, started=True)
            for attempt, (pod, process) in list(running.items()):
                status = process.poll()
                if status is None:
                    yield Event(attempt, process)
                    continue
                del running[attempt]
                pod.close()
                retried = status != 0 and attempt.number <= retries and status not in final
                yield Event(attempt, process, retried=retried)
                if retried:
                    waiting.append(Attempt(attempt.index, attempt.number + 1))
            if time.monotonic() > deadline:
                raise RehearsalError(f"did not end within {seconds:.0f} s")
            time.sleep(_POLL_SECONDS)
