"""Runs whose variants are measured one after another, while what they run on changes.

Made of simulated runs (``simulation``): a variant has the requests of a run of its own, moved to
its time, and each request is slower or faster by the level of the environment at that time.
"""

from __future__ import annotations

import dataclasses
import math
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spectap.config import Config
from spectap.names import CONTROL
from spectap.record import Record
from tests.bench.simulation import SIDES, configuration, records
from tests.bench.worlds import World

_Times = NDArray[np.float64]
_BETWEEN = 300.0
"""Seconds from one variant to the next: a server has to load its model."""
_CONTROLS = 2**30
"""The number of the run that the controls of the first variant are taken from."""


@dataclass(frozen=True)
class Apart:
    """Variants that are measured apart, and how their environment wanders meanwhile.

    Levels are natural logarithms of a factor on all times; a span is how long a variant takes.
    """

    name: str
    world: World
    variants: int = 4
    """The baseline included. The one that speculates comes last, others like it in between."""
    at_once: int = 1
    """How many are measured at the same time, on devices whose levels have nothing in common."""
    walk: float = 0.0
    """Scatter of the change of a random walk in a span."""
    wave: float = 0.0
    """How high a sine wave is, whose phase is random."""
    period: float = 10.0
    """How many spans the wave is long."""
    trend: float = 0.0
    """How much slower everything is after a span (0.01: 1 %)."""
    nodes: float = 0.0
    """Scatter of a constant level of each variant's devices, which no control can see."""

    @property
    def names(self) -> tuple[str, ...]:
        """Of the variants, in the order in which they are measured."""
        return (SIDES[0], *(f"other-{one}" for one in range(2, self.variants)), SIDES[1])

    def configuration(self) -> Config:
        """What its runs were told to do."""
        told = configuration(self.world)
        base, own = told.variants
        others = (own.model_copy(update={"name": name}) for name in self.names[1:])
        return told.model_copy(update={"variants": (base, *others), "apart": True})

    def records(self, number: int) -> list[Record]:
        """The requests of one of its runs, controls included; the same number, the same run."""
        chance = np.random.default_rng([zlib.crc32(repr(self).encode()), number])
        plain = [
            self._plain(number * self.variants + place, place) for place in range(len(self.names))
        ]
        span = max(record.sent + record.end for own in plain for record in own) + _BETWEEN
        rounds = math.ceil(self.variants / self.at_once)
        levels = [self._level(chance, span, rounds) for _ in range(self.at_once)]
        found = []
        for place, own in enumerate(plain):
            begin, constant = place // self.at_once * span, self.nodes * chance.standard_normal()
            found += _at(own, begin, levels[place % self.at_once], constant)
        return found

    def _plain(self, number: int, place: int) -> list[Record]:
        """Of one variant, as if its environment were steady."""
        side, name = SIDES[min(place, 1)], self.names[place]
        own = [r for r in records(self.world, number) if r.variant == side]
        ends = max(record.sent + record.end for record in own)
        others = records(self.world, _CONTROLS + number)
        first, second = (
            [r for r in others if (r.variant, r.case, r.round) == (side, own[0].case, round_)]
            for round_ in (1, 2)
        )
        waves = [wave[: self.world.concurrency] for wave in (first, second)]
        longest = max(record.end for wave in waves for record in wave)
        begins = (-longest, ends)
        controls = [
            dataclasses.replace(r, round=CONTROL, attempt=attempt, sent=begin)
            for attempt, (wave, begin) in enumerate(zip(waves, begins, strict=True), start=1)
            for r in wave
        ]
        return [dataclasses.replace(r, variant=name, sent=r.sent + longest) for r in controls + own]

    def _level(
        self, chance: np.random.Generator, span: float, spans: int
    ) -> Callable[[_Times], _Times]:
        """The level of one set of devices at any time."""
        steps = 200 * (spans + 1)
        times = np.linspace(-span, span * (spans + 1), steps)
        scatter = self.walk * math.sqrt((times[1] - times[0]) / span)
        walk = np.cumsum(scatter * chance.standard_normal(steps))
        wave = self.wave * np.sin(2 * np.pi * (times / span / self.period + chance.random()))
        levels = walk + wave + math.log1p(self.trend) * times / span
        return lambda at: np.interp(at, times, levels)


def _at(
    records: Sequence[Record], begin: float, level: Callable[[_Times], _Times], constant: float
) -> list[Record]:
    """The same requests at another time, in the environment of that time."""
    middles = np.array([begin + record.sent + record.end / 2 for record in records])
    factors = np.exp(level(middles) + constant)
    return [
        dataclasses.replace(
            record,
            sent=begin + record.sent,
            end=record.end * factor,
            chunks=tuple((time * factor, tokens) for time, tokens in record.chunks),
        )
        for record, factor in zip(records, factors.tolist(), strict=True)
    ]
