"""The time, and waiting, of what starts and ends nodes: tests let days pass in no time."""

from __future__ import annotations

import datetime
import time


def now() -> datetime.datetime:
    """In UTC, in whole seconds, as schedules have them."""
    return datetime.datetime.now(datetime.UTC).replace(microsecond=0)


def sleep(seconds: float) -> None:
    """Waits."""
    time.sleep(seconds)
