"""Shows what becomes of a sweep's indexes, and kills those that are to be killed."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from deployment.console import Console, Stage
from rehearsal.process.processes import Process
from rehearsal.sweep.controller import Attempt

if TYPE_CHECKING:  # it is indexes that has a progress
    from rehearsal.sweep.indexes import IndexPods


class Progress:
    """A line for whatever happens to an index."""

    def __init__(
        self, pods: IndexPods, console: Console, stage: Stage, is_to_die: Callable[[Attempt], bool]
    ) -> None:
        self._pods, self._console, self._stage = pods, console, stage
        self._is_to_die = is_to_die
        self._since: dict[Attempt, float] = {}
        self._complete = 0
        self.given_up: dict[int, str] = {}
        """Why an index failed for good."""

    def started(self, attempt: Attempt) -> None:
        """Says so."""
        self._since[attempt] = time.monotonic()
        again = f" again, attempt {attempt.number}" if attempt.number > 1 else ""
        self._say(attempt, f"started{again}")

    def runs(self, attempt: Attempt, process: Process) -> None:
        """Kills it if it is to die now."""
        if self._is_to_die(attempt):
            process.kill()

    def complete(self, attempt: Attempt) -> None:
        """Says how long it took."""
        seconds = time.monotonic() - self._since.pop(attempt)
        self._complete += 1
        self._say(attempt, f"complete, {seconds:.1f} s")

    def failed(self, attempt: Attempt, status: int, *, retried: bool) -> None:
        """Says why, and what follows."""
        del self._since[attempt]
        killed = f"killed ({signal.Signals(-status).name})" if status < 0 else None
        why = killed or self._pods.why(attempt)
        if not retried:
            self.given_up[attempt.index] = why
        self._say(attempt, f"{why}; {'will be retried' if retried else 'failed for good'}")

    def _say(self, attempt: Attempt, what: str) -> None:
        self._console.say(f"{self._pods.name(attempt.index)}: {what}")
        running = ", ".join(self._pods.job.variant_of(other.index) for other in self._since)
        given_up = f", {len(self.given_up)} failed" if self.given_up else ""
        self._stage.now = (
            f"{self._complete} of {self._pods.job.indexes} complete{given_up}; running: {running}"
        )
