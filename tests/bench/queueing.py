"""How often a queue is seen where there is one, and where there is none.

``python -m tests.bench.queueing [--count 200]``. A service takes about a second, in one of a
server's slots. Prefill and decoding scatter: by a standard deviation of the logarithm.
"""

from __future__ import annotations

import heapq
import math
import random
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate, count
from typing import Final

from spectap.analysis.cells import queued
from spectap.record import Record
from tests.bench import harness
from tests.spectap.samples import record

_HANDOVER = 0.005
SENSITIVITY = 0.92
"""The least, of closed loops that wait, with a prefill up to 40 % and a scatter of 0.1."""
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
            if (following := next(tickets)) < requests:
                heapq.heappush(sending, (end + chance.random() * _HANDOVER, following))
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


def recognised(server: Server, runs: int) -> float:
    """The share of runs in which a queue is seen."""
    return sum(queued(server.records(seed)) for seed in range(runs)) / runs


WORLDS: Final = (
    ("A queue: concurrency, slots", False, ((2, 1), (4, 2), (5, 4), (8, 4), (9, 8), (32, 16))),
    ("None: concurrency", False, ((2, None), (4, None), (8, None), (16, None), (32, None))),
    ("A queue: requests a second, slots", True, ((0.5, 1), (2, 1), (3, 4), (6, 4))),
    ("None: requests a second", True, ((0.5, None), (1, None), (2, None), (6, None))),
)


def main() -> int:
    """Prints a table of each kind; returns 1 where a bar is missed."""
    return harness.status(_missed(harness.count(__doc__, 200)))


def _missed(count: int) -> Iterator[str]:
    for title, is_open, servers in WORLDS:
        print(f"{title}; prefill 2, 10, 40, 80, 95 % of a service; scattering by 0.1, by 0.5")
        for load, slots in servers:
            name = f"{load:>3} {slots or '':>3}"
            shares = [
                recognised(Server(load, slots, is_open, prefill, scatter, max(8, int(load))), count)
                for scatter in (0.1, 0.5)
                for prefill in (0.02, 0.1, 0.4, 0.8, 0.95)
            ]
            print(name, *(f"{share:>7.1%}" for share in shares))
            if slots is None and max(shares) > FALSE_ALARMS:
                yield f"{title}, {name}: a queue is seen in {max(shares):.1%}"
            if slots is not None and not is_open and min(shares[:3]) < SENSITIVITY:
                yield f"{title}, {name}: seen in {min(shares[:3]):.1%}"


if __name__ == "__main__":
    sys.exit(main())
