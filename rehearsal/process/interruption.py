"""Ctrl-C and other signals, held back while a process is being started or stopped."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

_held = 0
_pending: signal.Signals | None = None


class Interrupted(KeyboardInterrupt):
    """A signal asks this process to end.

    It derives from KeyboardInterrupt, so that no ``except Exception`` swallows it, and pytest
    finishes its fixtures, whichever signal it was.
    """

    def __init__(self, by: signal.Signals) -> None:
        super().__init__(by.name)
        self.by = by


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """Inside it, each of ``SIGNALS`` raises Interrupted. For the main thread only."""
    before = {number: signal.signal(number, _on_signal) for number in SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def held() -> Iterator[None]:
    """Inside it, Interrupted is held back: a second Ctrl-C must not interrupt a clean-up."""
    global _held, _pending
    _held += 1
    try:
        yield
    finally:
        _held -= 1
        if not _held and _pending is not None:
            by, _pending = _pending, None
            raise Interrupted(by)


def _on_signal(number: int, _frame: FrameType | None) -> None:
    global _pending
    by = signal.Signals(number)
    if not _held:
        raise Interrupted(by)
    _pending = by
