"""Queues: a service takes about a second, in one of a server's slots.

Prefill and decoding scatter: by a standard deviation of the logarithm.
"""

import heapq
import math
import random
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate, count
from typing import Final

from benchmarks.harness import Bar, Group, Statement
from spectap.analysis.loads import queued
from spectap.records.record import Record
from tests.samples import record

_HANDOVER = 0.005
SENSITIVITY = 0.92
"""The least, of closed loops in which one request in five waits or more, with a prefill up to 40 %
and a scatter of 0.1."""
FALSE_ALARMS = 0.015
"""The most, of cells without a queue."""


@dataclass(frozen=True)
class Server:
    """A server under a load: so many requests at once, or a second where it is an ``open`` loop."""

    load: float
    slots: int | None
    """None: as many as there are requests."""
    open: bool = False
    prefill: float = 0.1
    """The part of a service before the first token."""
    scatter: float = 0.1
    """That part's scatter; answers have half of it."""
    requests: int = 0
    """In each round; 0: one wave."""
    rounds: int = 6
    fill: int = 0
    """Requests of a closed loop before those that count, and as many after them."""

    def records(self, seed: int) -> list[Record]:
        """The requests of a run."""
        chance = random.Random(seed)
        return [r for number in range(self.rounds) for r in self._round(number + 1, chance)]

    def _round(self, number: int, chance: random.Random) -> Iterator[Record]:
        requests = self.requests or int(self.load)
        slots = [0.0] * (self.slots or requests)
        if self.open:
            gaps = [chance.expovariate(self.load) for _ in range(requests)]
            sending = list(zip(accumulate(gaps), range(requests), strict=True))
        else:
            sending = [(chance.random() * _HANDOVER, n) for n in range(int(self.load))]
        tickets = count(len(sending))
        start = 1e5 * number
        while sending:
            sent, ticket = heapq.heappop(sending)
            began = max(sent, heapq.heappop(slots))
            first = began + self.prefill * math.exp(self.scatter * chance.gauss(0, 1))
            spread = math.exp(self.scatter / 2 * chance.gauss(0, 1))
            end = first + (1 - self.prefill) * spread
            heapq.heappush(slots, end)
            if (following := next(tickets)) < requests + 2 * self.fill:
                heapq.heappush(sending, (end + chance.random() * _HANDOVER, following))
            if not self.fill <= ticket < self.fill + requests:
                continue
            # The tap sees each a little late.
            late = [chance.random() * _HANDOVER for _ in range(2)]
            yield record(
                round=number,
                request=f"{number}-{ticket}",
                sent=start + sent,
                chunks=((first + late[0] - sent, 1), (end - sent, 19)),
                output_tokens=20,
                end=end + max(late) - sent,
            )


def recognised(server: Server, seed: int) -> bool:
    """Whether a queue is seen in a run."""
    return queued(server.records(seed))


@dataclass(frozen=True)
class Servers:
    """Servers under one load, that differ in their prefill and scatter."""

    load: float
    slots: int | None = None
    open: bool = False

    @property
    def name(self) -> str:
        """Concurrency or rate, and slots."""
        return f"{self.load:g}{' a second' if self.open else ''}, slots {self.slots or 'for all'}"

    def statements(self, number: int) -> Iterator[Statement]:
        """Whether a queue is seen where there is one, and none where there is none."""
        requests = max(8, int(self.load))
        for scatter in (0.1, 0.5):
            for prefill in (0.02, 0.1, 0.4, 0.8, 0.95):
                server = Server(self.load, self.slots, self.open, prefill, scatter, requests)
                figure = QUIET if scatter == 0.1 and prefill <= 0.4 else "others"
                yield Statement(figure, found=recognised(server, number) == bool(self.slots))


QUIET: Final = "quiet servers"
"""With a prefill up to 40 % of a service, and a scatter of 0.1."""
NEITHER: Final = Bar(None, found=1 - FALSE_ALARMS)
GROUPS: Final = (
    Group(
        "queue",
        [Servers(load, slots) for load, slots in ((2, 1), (4, 2), (5, 4), (8, 4), (32, 16))],
        {QUIET: Bar(None, found=SENSITIVITY)},
        40,
    ),
    # With the shortest prefill it is seldom seen: nothing is promised here.
    Group("queue, one in nine waits", [Servers(9, 8)], {}, 40),
    Group(
        "queue, open",
        [Servers(rate, slots, open=True) for rate, slots in ((0.5, 1), (2, 1), (3, 4), (6, 4))],
        {},
        40,
    ),
    Group(
        "no queue",
        [
            *(Servers(load) for load in (2, 4, 8, 16, 32)),
            *(Servers(load, open=True) for load in (0.5, 1, 2, 6)),
        ],
        {QUIET: NEITHER, "others": NEITHER},
        40,
    ),
)
