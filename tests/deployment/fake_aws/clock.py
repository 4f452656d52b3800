"""The time of the fake AWS, and what is to happen in it."""

from __future__ import annotations

import datetime
import heapq
import itertools
from collections.abc import Callable
from typing import Final

MINUTE: Final = 60.0
HOUR: Final = 3600.0
_EPOCH: Final = datetime.datetime(2026, 12, 1, tzinfo=datetime.UTC)


class Clock:
    """Seconds since a moment that means nothing; events happen when the time comes to them."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.watch: Callable[[], None] = lambda: None
        """Called after each event."""
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._count = itertools.count()

    def now(self) -> datetime.datetime:
        return self.moment(self.seconds)

    def moment(self, seconds: float) -> datetime.datetime:
        """A number of this clock in UTC, in whole seconds."""
        return _EPOCH + datetime.timedelta(seconds=int(seconds))

    def seconds_of(self, moment: datetime.datetime) -> float:
        return (moment - _EPOCH).total_seconds()

    def after(self, seconds: float, event: Callable[[], None]) -> None:
        heapq.heappush(self._events, (self.seconds + seconds, next(self._count), event))

    def advance(self, seconds: float) -> None:
        """Lets time pass, with all that happens meanwhile. An event may let time pass, too."""
        end = self.seconds + seconds
        while self._events and self._events[0][0] <= end:
            when, _, event = heapq.heappop(self._events)
            self.seconds = max(self.seconds, when)
            event()
            self.watch()
        self.seconds = max(self.seconds, end)
