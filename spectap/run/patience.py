"""How long a run waits, and for what."""

from __future__ import annotations

from dataclasses import dataclass

from spectap.endpoint import counters, health
from spectap.load.driver import GRACE_SECONDS


@dataclass(frozen=True)
class Patience:
    """How long to wait, and how often to look. All in seconds."""

    start: float = 6 * 3600
    """For all variants to serve before the first turn."""
    recovery: float = 600
    """For all variants to serve before another turn."""
    stall: float | None = None
    """For a server that sends nothing, before a turn on it ends. None stands for the tap's own, and
    where requests may wait in a queue for as long as the load lasts."""
    grace: float = GRACE_SECONDS
    """For the load generator to end after the load's own timeout."""
    poll: float = health.POLL_SECONDS
    """Between two looks whether a variant serves."""
    counters: float = counters.POLL_SECONDS
    """Between two looks whether a server's counters rest."""
