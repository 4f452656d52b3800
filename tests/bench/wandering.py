"""Whether intervals hold where variants were measured apart, while what they run on wanders.

``python -m tests.bench.wandering [--count 300]``

A variant has the requests of a simulated run of its own, moved to its time, and each request is
slower or faster by the level of the environment at that time. Each line of the table is a world,
summed up as a run whose variants were measured apart, and, beside that, as if they had been
measured at the same time: what the widening is for. The bar: 95 % intervals of speed hold the truth
in at least 93 %, and at most 5 % of reports make a wrong claim (missed as in ``statistics``).
"""

from __future__ import annotations

import dataclasses
import math
import sys
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from spectap.analysis.summarise import summarise
from spectap.config import Config
from spectap.names import CONTROL
from spectap.record import Record
from tests.bench import harness
from tests.bench.simulation import SIDES, World, configuration, records, truths
from tests.bench.trials import SPEED, Report, Trials, statements

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
        return config.model_copy(update={"variants": (base, *copies), "apart": True})

    def records(self, number: int) -> list[Record]:
        """The requests of one of its runs, controls included; the same number, the same run."""
        chance = np.random.default_rng([zlib.crc32(repr(self).encode()), number])
        plain = [
            self._plain(number * self.variants + position, position)
            for position in range(len(self.names))
        ]
        span = max(record.sent + record.end for ledger in plain for record in ledger) + _BETWEEN
        level = self._level(chance, span)
        return [
            _at(record, position * span, level)
            for position, ledger in enumerate(plain)
            for record in ledger
        ]

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


def _at(record: Record, begin: float, level: Callable[[float], float]) -> Record:
    """The same request at another time, in the environment of that time."""
    factor = math.exp(level(begin + record.sent + record.end / 2))
    return dataclasses.replace(
        record,
        sent=begin + record.sent,
        end=record.end * factor,
        chunks=tuple((time * factor, tokens) for time, tokens in record.chunks),
    )


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


def report(task: tuple[Apart, int]) -> list[Report]:
    """The reports on one run of a world: with the widening, and without."""
    world, number = task
    requests, config, true = world.records(number), world.configuration(), truths(world.world)
    summaries = (
        summarise(config.model_copy(update={"apart": isolated}), requests)
        for isolated in (True, False)
    )
    return [Report([*statements(each, true, world.names[1:])], ()) for each in summaries]


def main() -> int:
    """Prints the table; returns 1 where a bar is missed."""
    return harness.status(_missed(harness.count(__doc__, 300)))


def _missed(count: int) -> Iterator[str]:
    titles = ("widened:", "wrong", "found", "plain:", "wrong", "found")
    print(f"{'':<29}" + "".join(f"{title:>9}" for title in titles))
    reports = harness.run(report, [(world, n) for world in WORLDS for n in range(count)])
    for world in WORLDS:
        of_world = [next(reports) for _ in range(count)]
        sides = [Trials(world.world, side) for side in zip(*of_world, strict=True)]
        print(f"{world.name:<29}" + "".join(map(_row, sides)), flush=True)
        widened = sides[0]
        # All intervals of a report share one environment, so reports are what is independent.
        if widened.coverage(SPEED) < harness.least(count) / count:
            yield f"{world.name}: {widened.coverage(SPEED):.1%} of the intervals of speed hold"
        if widened.wrong > harness.most_wrong(count):
            yield f"{world.name}: {widened.wrong} of {count} reports are wrong"


def _row(side: Trials) -> str:
    shares = side.coverage(SPEED), side.wrong / len(side.reports), side.detected(SPEED)
    return "".join(f"{share:>9.1%}" for share in shares)


if __name__ == "__main__":
    sys.exit(main())
