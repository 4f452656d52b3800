"""Variants that were measured apart, while what they run on wanders.

A variant has the requests of a simulated run of its own, moved to its time, and each request is
slower or faster by the level of the environment at that time.
"""

import dataclasses
import math
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from benchmarks import verdicts
from benchmarks.harness import Bar, Group, Statement
from benchmarks.simulation import SIDES, World, configuration, records, slower, truths
from benchmarks.verdicts import SPEED, VERDICTS
from spectap.analysis.summarise import summarise
from spectap.inputs.config import Config
from spectap.names import CONTROL
from spectap.records.record import Record

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
    walk: float = 0.0
    """Scatter of the change of a random walk in a span."""
    wave: float = 0.0
    """How high a sine wave is, whose phase is random."""
    period: float = 10.0
    """How many spans the wave is long."""

    @property
    def names(self) -> tuple[str, ...]:
        """The variants, in the order in which they are measured."""
        return (SIDES[0], *(f"other-{number}" for number in range(2, self.variants)), SIDES[1])

    def configuration(self) -> Config:
        """The configuration of its runs."""
        config = configuration(self.world)
        base, speculative = config.variants
        copies = (speculative.model_copy(update={"name": name}) for name in self.names[1:])
        return config.model_copy(update={"variants": (base, *copies), "isolated": True})

    def records(self, number: int) -> list[Record]:
        """The requests of one of its runs, controls included; the same number, the same run."""
        chance = np.random.default_rng([zlib.crc32(repr(self).encode()), number])
        plain = [
            self._plain(number * self.variants + position, position)
            for position in range(len(self.names))
        ]
        span = max(record.sent + record.end for ledger in plain for record in ledger) + _BETWEEN
        level = self._level(chance, span)
        moved = [
            dataclasses.replace(record, sent=record.sent + position * span)
            for position, ledger in enumerate(plain)
            for record in ledger
        ]
        return [slower(record, level(record.sent + record.end / 2)) for record in moved]

    def statements(self, number: int) -> Iterator[Statement]:
        """What the report on the run of that number states."""
        summary = summarise(self.configuration(), self.records(number))
        return verdicts.statements(summary, truths(self.world), self.names[1:])

    def _plain(self, number: int, position: int) -> list[Record]:
        """One variant's requests in a steady environment."""
        side, name = SIDES[min(position, 1)], self.names[position]
        measured = [r for r in records(self.world, number) if r.variant == side]
        ends = max(record.sent + record.end for record in measured)
        rerun = records(self.world, _CONTROLS + number)
        first, second = (
            [r for r in rerun if (r.variant, r.case, r.round) == (side, measured[0].case, round_)]
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
        return [
            dataclasses.replace(r, variant=name, sent=r.sent + longest) for r in controls + measured
        ]

    def _level(self, chance: np.random.Generator, span: float) -> Callable[[float], float]:
        """The level of the environment at any time."""
        steps = 200 * (self.variants + 1)
        times = np.linspace(-span, span * (self.variants + 1), steps)
        scatter = self.walk * math.sqrt((times[1] - times[0]) / span)
        walk = np.cumsum(scatter * chance.standard_normal(steps))
        wave = self.wave * np.sin(2 * np.pi * (times / span / self.period + chance.random()))
        levels = walk + wave
        return lambda at: float(np.interp(at, times, levels))


PLAIN: Final = World("steps scatter by 2 %", request=0.02, wave=0.02, speedups=(1.0,) * 3)
CALM: Final = World("by 0.5 %", request=0.005, wave=0.005, speedups=(1.0,) * 3)
FASTER: Final = World("1.3x", request=0.02, wave=0.02, speedups=(1.3,) * 3)
CALM_FASTER: Final = World("1.3x, calm", request=0.005, wave=0.005, speedups=(1.3,) * 3)

WORLDS: Final = (
    Apart("steady", PLAIN),
    Apart("steady, calm", CALM),
    Apart("walk of 3 %", PLAIN, walk=0.03),
    Apart("walk of 3 %, calm", CALM, walk=0.03),
    Apart("walk of 1 %, calm", CALM, walk=0.01),
    Apart("two variants, walk of 3 %", CALM, variants=2, walk=0.03),
    Apart("seven variants, walk of 3 %", CALM, variants=7, walk=0.03),
    Apart("wave of 3 spans", CALM, wave=0.03, period=3),
    Apart("wave of 10 spans", CALM, wave=0.03, period=10),
    Apart("wave of a third of a span", CALM, wave=0.03, period=0.3),
    Apart("steady, calm, 1.3x", CALM_FASTER),
    Apart("walk of 1 %, calm, 1.3x", CALM_FASTER, walk=0.01),
    Apart("steady, 1.3x", FASTER),
    Apart("walk of 3 %, 1.3x", FASTER, walk=0.03),
)


GROUPS: Final = (Group("isolated", WORLDS, {SPEED: Bar()} | VERDICTS, 40),)
