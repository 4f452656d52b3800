"""Open loops, where what a request takes is the question: prefill, decoding and the queue."""

import functools
import heapq
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from statistics import fmean, median
from typing import Any, Final

import numpy as np

from benchmarks import simulation
from benchmarks.harness import Bar, Group, Statement
from benchmarks.verdicts import SPEED, VERDICTS, Truth
from spectap.inputs.config import Config
from spectap.records.record import Record
from tests import samples

_TRUTH_ROUNDS: Final = 3000


@dataclass(frozen=True)
class Server:
    """How a variant serves: a request waits for a slot, is prefilled, and decoded."""

    prefill: float
    """Seconds."""
    token: float
    """Seconds of a token after the first."""
    slots: int


@dataclass(frozen=True)
class OpenLoop:
    """Requests that come at a rate, to a baseline and a variant."""

    name: str
    servers: tuple[Server, Server]
    rate: float
    tokens: int
    requests: int = 32
    rounds: int = 6
    scatter: float = 0.1
    """Of the logarithm of a prefill, and of a decoding."""

    def config(self) -> Config:
        """The configuration of its runs."""
        return samples.config(
            load=samples.load(
                points=[{"rate": self.rate, "requests": self.requests}],
                rounds=self.rounds,
                mean_output_tokens=self.tokens,
            ),
            test_cases=[{"name": "case", "structure": "structured"}],
        )

    def _round(
        self, server: Server, sent: np.ndarray[Any, Any], chance: np.random.Generator
    ) -> Iterator[tuple[float, float]]:
        """When the first token of each request came, and the last, in seconds after its sending."""
        slots = [0.0] * server.slots
        prefills, decodings = np.exp(self.scatter * chance.standard_normal((2, len(sent))))
        for at, prefill, decoding in zip(sent, prefills, decodings, strict=True):
            first = max(at, heapq.heappop(slots)) + server.prefill * prefill
            end = first + server.token * (self.tokens - 1) * decoding
            heapq.heappush(slots, end)
            yield float(first - at), float(end - at)

    def _rounds(self, number: int, rounds: int) -> Iterator[tuple[int, int, float, float, float]]:
        """Round, side, sending, first token and end of each request: sides share their schedule."""
        chance = np.random.default_rng([round(100 * self.rate), self.tokens, number])
        for round_ in range(1, rounds + 1):
            sent = np.cumsum(chance.exponential(1 / self.rate, self.requests))
            for side, server in enumerate(self.servers):
                for at, times in zip(sent, self._round(server, sent, chance), strict=True):
                    yield round_, side, float(at), *times

    def records(self, number: int) -> list[Record]:
        """The requests of one of its runs."""
        load = self.config().load.points[0].name
        return [
            samples.record(
                variant=simulation.SIDES[side],
                case="case",
                load=load,
                round=round_,
                request=f"{index}",
                sent=1e5 * round_ + at,
                due=1e5 * round_ + at,
                chunks=((first, 1), (end, self.tokens - 1)),
                output_tokens=self.tokens,
                end=end,
            )
            for index, (round_, side, at, first, end) in enumerate(
                self._rounds(number, self.rounds)
            )
        ]

    def statements(self, number: int) -> Iterator[Statement]:
        """What the report on the run of that number states."""
        config = self.config()
        truths: Mapping[tuple[str, str], Truth]
        truths = {("case", config.load.points[0].name): Truth(_truth(self), math.nan)}
        return simulation.report(config, self.records(number), truths)


@functools.cache
def _truth(world: OpenLoop) -> float:
    """How many times faster a request is: the geometric mean over rounds, of the medians."""
    ends: dict[tuple[int, int], list[float]] = {}
    for round_, side, _, _, end in world._rounds(-1 % 2**32, _TRUTH_ROUNDS):
        ends.setdefault((round_, side), []).append(end)
    logs = {key: math.log(median(values)) for key, values in ends.items()}
    mean = fmean(logs[r, 0] - logs[r, 1] for r in range(1, _TRUTH_ROUNDS + 1))
    return round(math.exp(mean), 3)


BASE: Final = Server(prefill=0.2, token=0.045, slots=16)
GROUPS: Final = (
    Group(
        "open loops",
        (
            OpenLoop("long answers", (BASE, Server(0.25, 0.0225, 16)), rate=0.5, tokens=300),
            OpenLoop("short answers", (BASE, Server(0.42, 0.0225, 16)), rate=2, tokens=12),
            OpenLoop(
                "long prefills",
                (Server(2.0, 0.045, 16), Server(4.0, 0.0225, 16)),
                rate=0.5,
                tokens=50,
            ),
            OpenLoop("fewer slots", (BASE, Server(0.25, 0.0225, 2)), rate=0.55, tokens=140),
            OpenLoop("a queue", (BASE, Server(0.25, 0.0225, 1)), rate=0.28, tokens=140),
            OpenLoop("fewer slots, a queue", (BASE, Server(0.25, 0.0225, 2)), rate=0.7, tokens=140),
        ),
        {SPEED: Bar(0.90), **VERDICTS},
    ),
)
