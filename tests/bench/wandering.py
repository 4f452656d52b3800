"""Whether intervals hold where variants were measured apart, while what they run on wanders.

``python -m tests.bench.wandering [--reports 300]``

Each line is a world (``apart``), summed up as a run whose variants were measured apart, and, beside
that, as if they had been measured at the same time: what the widening is for. The bar: where the
level wanders by itself, 95 % intervals of speed hold the truth in at least 93 % (missed as in
``statistics``), and at most 5 % of reports make a wrong claim. No bar where nothing that is
measured shows what is wrong: a constant difference between nodes.
"""

from __future__ import annotations

import argparse
import functools
import math
import multiprocessing
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, median
from typing import Final

from spectap.analysis.summarise import summarise
from tests.bench.apart import Apart
from tests.bench.simulation import truths
from tests.bench.statements import SPEED, Statement, statements
from tests.bench.statistics import LOWEST, PROMISED, SELDOM, WRONG
from tests.bench.trials import likely
from tests.bench.worlds import World

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
NOT_HELD: Final = (
    Apart("trend of 3 % a span", CALM, trend=0.03),
    Apart("nodes differ by 3 %", CALM, nodes=0.03),
)
"""What the controls do not show, or not all of it."""


@dataclass(frozen=True)
class Said:
    """Of one run: what is said of the speeds, with and without the widening."""

    widened: Sequence[Statement]
    plain: Sequence[Statement]


def said(world: Apart, number: int) -> Said:
    """What is said of one run of a world."""
    records, told, true = world.records(number), world.configuration(), truths(world.world)
    found = []
    for apart in (True, False):
        summary = summarise(told.model_copy(update={"apart": apart}), records)
        found.append(statements(summary, true, world.names[1:]))
    return Said(*found)


def coverage(found: Sequence[Sequence[Statement]]) -> list[bool]:
    """Whether each interval of a speed-up holds the truth."""
    return [
        one.holds for said in found for one in said if one.figure == SPEED and one.holds is not None
    ]


def wrong(found: Sequence[Sequence[Statement]]) -> int:
    """How many reports make any wrong claim."""
    return sum(any(one.wrong for one in said) for said in found)


def main() -> int:
    """Prints the table; returns 1 where a bar is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--reports", type=int, default=300, help="in each world")
    count = parser.parse_args().reports
    missed = []
    print(
        f"{'':<29}{'widened:':>9}{'wrong':>8}{'+-':>8}{'found':>8}{'plain:':>9}{'wrong':>8}{'+-':>8}"
    )
    with multiprocessing.Pool() as pool:
        for world in (*WORLDS, *NOT_HELD):
            found = pool.map(functools.partial(said, world), range(count), chunksize=5)
            widened, plain = [one.widened for one in found], [one.plain for one in found]
            print(f"{world.name:<29}{_line(widened)}{_found(widened):>8}{_line(plain)}", flush=True)
            if world in WORLDS:
                missed += _missed(world.name, widened)
    print("".join(f"\nmissed: {line}" for line in missed) or "\nevery bar is met")
    return 1 if missed else 0


def _line(found: Sequence[Sequence[Statement]]) -> str:
    held = coverage(found)
    width = median(
        math.sqrt(one.interval.high / one.interval.low) - 1
        for said in found
        for one in said
        if one.figure == SPEED and one.interval
    )
    return f"{fmean(held):>9.1%}{wrong(found) / len(found):>8.1%}{width:>8.1%}"


def _found(found: Sequence[Sequence[Statement]]) -> str:
    real = [one.found for said in found for one in said if one.figure == SPEED and one.matters]
    return f"{fmean(real):.1%}" if real else "-"


def _missed(name: str, found: Sequence[Sequence[Statement]]) -> list[str]:
    held, missed = coverage(found), []
    # All intervals of a report share one environment, so reports are what is independent.
    least = likely(SELDOM, len(found), PROMISED) / len(found)
    if fmean(held) < min(LOWEST, least):
        missed.append(f"{name}: {fmean(held):.1%} of the intervals of speed hold")
    if wrong(found) > likely(1 - SELDOM, len(found), WRONG):
        missed.append(f"{name}: {wrong(found)} of {len(found)} reports are wrong")
    return missed


if __name__ == "__main__":
    sys.exit(main())
