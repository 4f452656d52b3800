"""Whether intervals, verdicts and the stopping rule hold what they say, where the truth is known.

``python -m tests.bench.statistics [--reports 500]``

Runs of ten test cases are simulated (``simulation``), summed up as the project sums up any run, and
held against the truth. The bars, and how the error of the simulation itself is judged:

- Coverage: the share of 95 % intervals that hold the truth is at least 93 %, and with 8 rounds or
  more at most 98 %. A share has a standard error of 0.3 % in 500 reports, ten intervals in each,
  and of 1 % for the summaries over all cases. So a share misses a bar where it is beyond it and
  a method that keeps 95 % would have it only once in a thousand simulations. The upper bar is for
  fixed rounds: those of a range have wider intervals, since each look has its part of the 5 %.
- Verdicts: at most 5 % of reports say anything wrong: a difference that there is not, or "too
  little to matter" of one that does matter. A method may use up its 5 %, so the share misses the
  bar where such a method would have it only once in a thousand simulations: over 8.2 % of 500.
- Power: where only requests scatter, as the article's do, 1.3x is found in 95 % of cases.
- Crossovers: at most 5 % of reports lose any load at which a variant turns from better to worse,
  of the two of each test case; missed as for verdicts. Where it turns clearly, 95 % are found.
- Goodput: its intervals hold at least 93 %, missed as for coverage.
- Stopping: with the same scatter, 95 % of 3x cases end in the fewest rounds allowed.

Ends with status 1, and names the bar, when one is missed. The same code gives the same figures.
"""

from __future__ import annotations

import argparse
import functools
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from statistics import fmean
from typing import Final

from tqdm import tqdm

from tests.bench.statements import (
    COST,
    CROSSOVERS,
    FIGURES,
    GOODPUT,
    OVERALL,
    SPEED,
)
from tests.bench.trials import Trials, likely, trials
from tests.bench.tried_worlds import (
    ARTICLE,
    CLEAR,
    FIXED,
    FOUND,
    LADDERS,
    LOADS,
    OBJECTIVES,
    RANGE,
    RANGED,
    SETS,
    UNSEEN,
)
from tests.bench.worlds import World

PROMISED: Final = 0.95
LOWEST: Final = 0.93
HIGHEST: Final = 0.98
MANY_ROUNDS: Final = 8
WRONG: Final = 0.05
SELDOM: Final = 0.001
"""How likely a method that keeps what it promises misses a bar."""
POWER: Final = 0.95
IN_FEWEST: Final = 0.95

Column = tuple[str, Callable[[Trials], str]]
"""A title, and what stands under it for a world."""


def main() -> int:
    """Prints the tables; returns 1 where a bar is missed."""
    count = _arguments().reports
    missed = [
        *_fixed(count),
        *_sets(count),
        *_ladders(count),
        *_objectives(count),
        *_ranged(count),
    ]
    print()
    for line in missed:
        print(f"missed: {line}")
    if not missed:
        print("every bar is met")
    return 1 if missed else 0


def _fixed(count: int) -> Iterator[str]:
    print(f"Fixed rounds; {count:,} reports of ten test cases in each world")
    for tried in _table(FIXED, count, COMMON):
        yield from _missed(tried)
        if tried.world.most_rounds >= MANY_ROUNDS:
            yield from _needlessly_wide(tried)
        if tried.world.name == FOUND and not tried.found >= POWER:
            yield f"{_name(tried)}: {_share(tried.found)} are found"
    print("(in brackets: what the rounds of one side do not show; no bar)")


def _sets(count: int) -> Iterator[str]:
    print("\nPrompts with names; as many reports")
    for tried in _table(SETS, count, COMMON):
        yield from _missed(tried)


def _ladders(count: int) -> Iterator[str]:
    print(f"\nLadders of {len(LOADS)} loads; as many reports of three test cases")
    for tried in _table(LADDERS, count, LADDER):
        yield from _missed(tried)
        allowed = likely(1 - SELDOM, len(tried.reports), WRONG)
        if tried.lost > allowed:
            yield f"{_name(tried)}: {tried.lost} reports lose a crossover, {allowed} may"
        if tried.world.name == CLEAR and not tried.bounded(CROSSOVERS[0]) >= POWER:
            yield f"{_name(tried)}: {_share(tried.bounded(CROSSOVERS[0]))} are found"


def _objectives(count: int) -> Iterator[str]:
    print("\nObjectives; as many reports of ten test cases")
    for tried in _table(OBJECTIVES, count, GOOD):
        held = tried.held(GOODPUT)
        if sum(held) < min(LOWEST * len(held), likely(SELDOM, len(held), PROMISED)):
            yield f"{_name(tried)}: {_coverage(tried, GOODPUT)} of the intervals of goodput hold"


def _ranged(count: int) -> Iterator[str]:
    print(f"\n{RANGE}, or until {RANGE.half_width:.0%} are certain; as many reports")
    for tried in _table(RANGED, count, (*COMMON, *STOPPING)):
        yield from _missed(tried)
        if tried.world.name == ARTICLE and not _in_fewest(tried) >= IN_FEWEST:
            share = _share(_in_fewest(tried))
            yield f"{_name(tried)}: {share} of 3x cases end in the fewest rounds"


def _table(worlds: Sequence[World], count: int, columns: Sequence[Column]) -> Iterator[Trials]:
    """Prints a line for each world, and gives what it is made of."""
    print(f"{'':<24}{'load':>13}" + "".join(f"{title:>11}" for title, _ in columns))
    for tried in trials(worlds, count):
        cells = "".join(f"{write(tried):>11}" for _, write in columns)
        tqdm.write(f"{tried.world.name:<24}{tried.world.load:>13}{cells}")
        yield tried


def _missed(tried: Trials) -> Iterator[str]:
    """A line for each bar on coverage and verdicts that a world misses."""
    for figure in FIGURES:
        # Sets of prompts are of no structure, and so in no mean over test cases.
        if tried.world.prompts and figure in OVERALL:
            continue
        held = tried.held(figure)
        least = min(LOWEST * len(held), likely(SELDOM, len(held), PROMISED))
        if not held or (sum(held) < least and not _unseen(tried, figure)):
            yield f"{_name(tried)}: {_coverage(tried, figure)} of the intervals of {figure} hold"
    allowed = likely(1 - SELDOM, len(tried.reports), WRONG)
    if tried.wrong > allowed:
        yield f"{_name(tried)}: {tried.wrong} reports are wrong, {allowed} may be"


def _needlessly_wide(tried: Trials) -> Iterator[str]:
    for figure in (SPEED, COST):
        held = tried.held(figure)
        if sum(held) > max(HIGHEST * len(held), likely(1 - SELDOM, len(held), PROMISED)):
            yield f"{_name(tried)}: {_coverage(tried, figure)} of the intervals of {figure} hold"


def _in_fewest(tried: Trials) -> float:
    rounds = tried.rounds(speedup=3.0)
    return fmean(count == RANGE.at_least for count in rounds) if rounds else math.nan


def _unseen(tried: Trials, figure: str) -> bool:
    return figure in UNSEEN.get(tried.world.name, ())


def _coverage(tried: Trials, figure: str) -> str:
    share = _share(tried.coverage(figure))
    return f"({share})" if _unseen(tried, figure) else share


def _share(share: float) -> str:
    return "-" if math.isnan(share) else f"{share:.1%}"


def _name(tried: Trials) -> str:
    return f"{tried.world.name}, {tried.world.load}"


COMMON: Final[tuple[Column, ...]] = (
    *((figure, functools.partial(_coverage, figure=figure)) for figure in FIGURES),
    ("half-width", lambda tried: f"{tried.half_width(SPEED):.1%}"),
    ("any wrong", lambda tried: f"{tried.wrong / len(tried.reports):.1%}"),
    ("found", lambda tried: _share(tried.found)),
)
LADDER: Final[tuple[Column, ...]] = (
    *((figure, functools.partial(_coverage, figure=figure)) for figure in (SPEED, COST)),
    ("lost", lambda tried: f"{tried.lost / len(tried.reports):.1%}"),
    ("any wrong", lambda tried: f"{tried.wrong / len(tried.reports):.1%}"),
    ("found", lambda tried: _share(tried.bounded(CROSSOVERS[0]))),
    ("cost found", lambda tried: _share(tried.bounded(CROSSOVERS[1]))),
)
GOOD: Final[tuple[Column, ...]] = (
    (GOODPUT, functools.partial(_coverage, figure=GOODPUT)),
    ("true", lambda tried: _share(next(tried.of(GOODPUT)).truth)),
    ("width", lambda tried: _share(tried.width(GOODPUT))),
)
STOPPING: Final[tuple[Column, ...]] = (
    ("rounds", lambda tried: f"{fmean(tried.rounds()):.1f}"),
    ("3x fewest", lambda tried: _share(_in_fewest(tried))),
)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--reports", type=int, default=500, help="in each world")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
