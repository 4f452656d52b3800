"""``collect``: makes a run of what a job generates, beside what generates it.

Its input is the environment, that of ``prompts``. It waits until generate.ended lies in the
variant's folder, or nobody holds generate.lock there any more. Meanwhile, whenever a turn is
complete, it puts the turn into the ledger, the ledger into the bucket, and then its figures into
CloudWatch. When the variant is complete, all that are complete are made one run with one report.
What was generated before generating failed is kept, and the next pod goes on from there: the exit
status is then 1.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import fcntl
import signal
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import Final

from spectap.commands import execution
from spectap.commands.alone import Alone
from spectap.commands.execution import Ended
from spectap.commands.prompts import named
from spectap.errors import BenchmarkError
from spectap.names import GENERATE_ENDED, GENERATE_LOCK, GENERATIONS
from spectap.offline import intake
from spectap.offline.left import Left
from spectap.printing import printable
from spectap.prompt import Prompt
from spectap.record import Record
from spectap.run.folder import writing
from spectap.run.shipper import Shipper, make_shipper

POLL_SECONDS: Final = 2.0
"""Between two looks at the folder. Hours pass between the first and the last."""


def options(parser: argparse.ArgumentParser) -> None:
    """Adds nothing: a pod is told what to do by its environment."""


def main(arguments: argparse.Namespace) -> int:
    """Waits, collects, merges; returns the exit status.

    Raises ConfigError, RunError, JournalError and BucketError.
    """
    alone = Alone.told(offline=True)
    sleep = _Sleep()
    shipper = make_shipper(alone.config, alone.folder, alone.run_id, sleep)
    collected = _Collected(alone, shipper)
    with sleep.until_ended():
        while not (alone.complete or collected.ended):
            sleep(POLL_SECONDS)
            collected.look()
    if sleep.ended is not None:
        collected.rescue()
        return execution.ended(sleep.ended, alone.folder)
    with execution.ending_at_once():
        failed = collected.finish()
        return alone.conclude(
            failed, complete=collected.complete, shipped=collected.shipped, shipper=shipper
        )


class _Sleep:
    """Sleeps until a signal ends the process, in short pieces: a handler does not end a sleep."""

    def __init__(self) -> None:
        self.ended: signal.Signals | None = None

    def __call__(self, seconds: float) -> None:
        """Raises Ended when a signal has come."""
        until = time.monotonic() + seconds
        while self.ended is None and (left := until - time.monotonic()) > 0:
            time.sleep(min(left, 0.5))
        if self.ended is not None:
            raise Ended

    @contextlib.contextmanager
    def until_ended(self) -> Iterator[None]:
        """Notes a signal, and ends the block at the next sleep."""

        def note(by: int, _: FrameType | None) -> None:
            self.ended = signal.Signals(by)

        before = {by: signal.signal(by, note) for by in (signal.SIGTERM, signal.SIGINT)}
        try:
            with contextlib.suppress(Ended):
                yield
        finally:
            for by, handler in before.items():
                signal.signal(by, handler)


class _Collected:
    """What has been generated so far, and how much of it has left this machine."""

    def __init__(self, alone: Alone, shipper: Shipper | None) -> None:
        self._alone, self._shipper = alone, shipper
        self._size = 0
        self._settled = 0
        self._not_shipped: str | None = None
        self._prompts: Mapping[str, Sequence[Prompt]] | None = None
        self._records: list[Record] = []

    @property
    def ended(self) -> bool:
        """Whether what generates has ended, or was killed before it could say so."""
        folder = self._alone.folder
        return (folder / GENERATE_ENDED).exists() or _released(folder / GENERATE_LOCK)

    @property
    def complete(self) -> bool:
        """Whether all that was to be measured is in the ledger."""
        return self._alone.complete or self._left.complete

    @property
    def shipped(self) -> bool:
        """Whether all that was to leave this machine has left it."""
        return self._not_shipped is None

    @property
    def _left(self) -> Left:
        return Left(self._alone.config, self._records)

    def look(self) -> None:
        """Takes and ships what is new, once a turn is complete."""
        if (size := _size(self._alone.folder / GENERATIONS)) == self._size:
            return
        self._size = size
        self._take()
        settled = len(self._left.settled)
        # After a failure only once more, at the end.
        if settled > self._settled and self._not_shipped is None:
            self._settled = settled
            self._ship()

    def finish(self) -> list[str]:
        """Takes and ships all there is; returns a line for each thing that failed."""
        self._take()
        self._ship()
        failed = [*self._on_status()]
        if not self.complete:
            failed += self._left.failures
        if self._not_shipped is not None:
            failed.append(self._not_shipped)
        return failed

    def rescue(self) -> None:
        """Takes what there is, and uploads it if that goes at once."""
        with contextlib.suppress(BenchmarkError, Ended):
            self._take()
            if self._shipper is not None:
                self._shipper.upload()

    def _take(self) -> None:
        with writing(self._alone.folder):
            if self._prompts is None:
                self._prompts = named(self._alone)
            self._records = intake.take(self._alone.config, self._alone.folder, self._prompts)

    def _ship(self) -> None:
        if self._shipper is None:
            return
        self._not_shipped = asyncio.run(self._shipper.ship(self._left.settled, self._records))
        if self._not_shipped is not None:
            print(f"spectap: {printable(self._not_shipped)}", file=sys.stderr)

    def _on_status(self) -> Iterator[str]:
        path = self._alone.folder / GENERATE_ENDED
        if path.exists():
            status = path.read_text(encoding="utf-8").strip()
            if status != "0":
                yield f"what generates ended with status {status}"
        elif not self._alone.complete:
            yield "what generates was killed: it did not say how it ended"


def _released(lock: Path) -> bool:
    """Whether there is such a lock, and nobody holds it: whoever held it has ended."""
    try:
        with lock.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
    except (FileNotFoundError, BlockingIOError):
        return False


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0
