"""Whether intervals, verdicts and the stopping rule hold what they say, where the truth is known.

``python -m tests.bench.statistics [--count 500]``

Runs of ten test cases are simulated (``simulation``), summed up as the project sums up any run, and
held against the truth. The bars, and how the error of the simulation itself is judged:

- Coverage: the share of 95 % intervals that hold the truth is at least 93 %, and with 8
  fixed rounds or more at most 98 %; missed where a method that keeps 95 % would have it only once
  in a thousand simulations.
- Verdicts: at most 5 % of reports say anything wrong: a difference that there is not, or "too
  little to matter" of one that does matter; missed likewise: over 8.2 % of 500.
- Power: where only requests scatter, as the article's do, 1.3x is found in 95 % of cases.
- Crossovers: at most 5 % of reports lose any load at which a variant turns from better to worse,
  of the two of each test case. Where it turns clearly, 95 % are found.
- Goodput: its intervals hold at least 93 %.
- Stopping: with the same scatter, 95 % of 3x cases end in the fewest rounds allowed.

Ends with status 1, and names the bar, when one is missed. The same code gives the same figures.
"""

from __future__ import annotations

import functools
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from statistics import fmean
from typing import Final

from spectap.load_points import Rounds
from tests.bench import harness
from tests.bench.simulation import World, truths
from tests.bench.trials import (
    COST,
    CROSSOVERS,
    FIGURES,
    GOODPUT,
    OVERALL,
    SPEED,
    Trials,
    trials,
)

HIGHEST: Final = 0.98
MANY_ROUNDS: Final = 8
POWER: Final = 0.95
IN_FEWEST: Final = 0.95

MIXED: Final = (1.0,) * 5 + (1.3,) * 3 + (3.0,) * 2
DETECTED: Final = "1.3x"
ARTICLE: Final = "the article's scatter"
RANGE: Final = Rounds(at_least=4, at_most=30, half_width=0.05)

ISSUE: Final = (
    World("requests"),
    World("waves", wave=0.05),
    World("waves, shared rounds", wave=0.05, round=0.05),
    World("wide waves", request=0.02, wave=0.15),
    World("3x, all of these", request=0.1, wave=0.1, round=0.05, speedups=(3.0,) * 10),
)
"""Scatter of each kind, under the default load."""

PLAIN: Final = ISSUE[1]

FIXED: Final = (
    *(replace(world, rounds=3, requests=8) for world in ISSUE),
    *ISSUE,
    World("rounds of each side", wave=0.05, own_round=0.05),
    World("heavy tails", wave=0.05, heavy=True),
    World("stalls of 3 %", wave=0.05, stalls=0.03),
    World("drift of 20 %", wave=0.05, drift=0.2),
    World("one-sided drift of 5 %", wave=0.05, one_sided_drift=0.05),
    World("failures of 5 %", wave=0.05, failures=0.05),
    World("answers of all lengths", wave=0.05, lengths=0.3),
    World("three times the scatter", wave=0.05, wider=3),
    World("1.0x, 1.3x and 3x", wave=0.05, speedups=MIXED),
    World(DETECTED, speedups=(1.3,) * 10),
    World("just over 5 %", rounds=30, speedups=(1.051,) * 10),
    World("1.0x and just over 5 %", speedups=(1.0,) * 5 + (1.051,) * 5, rounds=30),
    *(replace(PLAIN, rounds=rounds) for rounds in (3, 4, 8, 15, 30)),
    replace(PLAIN, concurrency=1),
    replace(PLAIN, concurrency=16, requests=16),
)

PROMPTS: Final = World("prompts of their own", wave=0.05, prompts=164, prompt=0.2)
"""Prompts with names, others in each round."""

SETS: Final = (
    PROMPTS,
    replace(PROMPTS, name="and rounds of each side", own_round=0.05, prompt=0.1),
    replace(PROMPTS, name="12 prompts", own_round=0.05, prompts=12),
    replace(PROMPTS, name="12 prompts, 3 rounds", own_round=0.05, prompts=12, rounds=3),
    replace(PROMPTS, name="12 in each round", own_round=0.05, prompts=12, requests=12),
    replace(PROMPTS, name="80 prompts, 30 rounds", own_round=0.05, prompts=80, rounds=30),
)
LOADS: Final = (1, 2, 4, 8)
CLEAR: Final = "clearly between two"
LADDERS: Final = tuple(
    World(name, wave=0.05, ladder=LOADS, speedups=speedups * 3)
    for name, speedups in (
        (CLEAR, (1.5, 1.3, 0.75, 0.6)),
        ("between two", (1.3, 1.05, 0.95, 0.8)),
        ("at a load", (1.2, 1.0, 0.9, 0.8)),
        ("at the lowest", (1.0, 0.9, 0.8, 0.7)),
        ("beyond the highest", (1.4, 1.2, 1.1, 1.02)),
        ("below the lowest", (0.98, 0.9, 0.8, 0.7)),
        ("no difference at all", (1.0, 1.0, 1.0, 1.0)),
    )
)
"""Where a variant turns from better to worse, over four loads of three test cases."""

OBJECTIVES: Final = (
    World("half within", wave=0.05, round=0.05, limit=0.045),
    World("most within", wave=0.05, round=0.05, limit=0.05),
    World("most within, 8 waves", wave=0.05, round=0.05, limit=0.05, requests=8, concurrency=1),
    World("most, 30 rounds", wave=0.05, round=0.05, limit=0.05, rounds=30),
    World("failures of 5 %", failures=0.05, limit=0.055, requests=12),
)

RANGED: Final = tuple(
    replace(world, rounds=RANGE)
    for world in (
        World(ARTICLE, speedups=MIXED),
        World("requests"),
        PLAIN,
        World("1.0x, 1.3x and 3x", wave=0.05, round=0.05, speedups=MIXED),
        World("wide waves", request=0.02, wave=0.15),
        World("heavy tails", wave=0.05, heavy=True),
        World("drift of 20 %", wave=0.05, drift=0.2),
        World("failures of 5 %", wave=0.05, failures=0.05),
    )
)
"""A one-sided drift is not among them: what is true of it depends on when a case ends."""

Column = tuple[str, Callable[[Trials], str]]
"""A title, and what stands under it for a world."""


def main() -> int:
    """Prints the tables; returns 1 where a bar is missed."""
    count = harness.count(__doc__, 500)
    kinds = (_fixed, _sets, _ladders, _objectives, _ranged)
    return harness.status(line for kind in kinds for line in kind(count))


def _fixed(count: int) -> Iterator[str]:
    print(f"Fixed rounds; {count:,} reports of ten test cases in each world")
    for tried in _table(FIXED, count, COMMON):
        yield from _missed(tried)
        if tried.world.most_rounds >= MANY_ROUNDS:
            for figure in (SPEED, COST):
                held = tried.held(figure)
                likely = harness.likely(1 - harness.SELDOM, len(held), harness.PROMISED)
                if sum(held) > max(HIGHEST * len(held), likely):
                    yield f"{_name(tried)}: intervals of {figure} are needlessly wide"
        if tried.world.name == DETECTED and not tried.detected(SPEED) >= POWER:
            yield f"{_name(tried)}: {_share(tried.detected(SPEED))} are found"


def _sets(count: int) -> Iterator[str]:
    print("\nPrompts with names; as many reports")
    for tried in _table(SETS, count, COMMON):
        yield from _missed(tried)


def _ladders(count: int) -> Iterator[str]:
    print(f"\nLadders of {len(LOADS)} loads; as many reports of three test cases")
    for tried in _table(LADDERS, count, LADDER):
        yield from _missed(tried)
        allowed = harness.most_wrong(len(tried.reports))
        if tried.lost > allowed:
            yield f"{_name(tried)}: {tried.lost} reports lose a crossover, {allowed} may"
        if tried.world.name == CLEAR and not tried.detected(CROSSOVERS[0]) >= POWER:
            yield f"{_name(tried)}: {_share(tried.detected(CROSSOVERS[0]))} are found"


def _objectives(count: int) -> Iterator[str]:
    print("\nObjectives; as many reports of ten test cases")
    for tried in _table(OBJECTIVES, count, GOOD):
        held = tried.held(GOODPUT)
        if sum(held) < harness.least(len(held)):
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
        print(f"{tried.world.name:<24}{tried.world.load:>13}{cells}", flush=True)
        yield tried


def _missed(tried: Trials) -> Iterator[str]:
    """A line for each bar on coverage and verdicts that a world misses."""
    for figure in FIGURES:
        # Sets of prompts are of no structure, and so in no mean over test cases.
        if tried.world.prompts and figure in OVERALL:
            continue
        held = tried.held(figure)
        least = harness.least(len(held))
        if not held or sum(held) < least:
            yield f"{_name(tried)}: {_coverage(tried, figure)} of the intervals of {figure} hold"
    allowed = harness.most_wrong(len(tried.reports))
    if tried.wrong > allowed:
        yield f"{_name(tried)}: {tried.wrong} reports are wrong, {allowed} may be"


def _in_fewest(tried: Trials) -> float:
    rounds = tried.rounds(speedup=3.0)
    return fmean(count == RANGE.at_least for count in rounds) if rounds else math.nan


def _coverage(tried: Trials, figure: str) -> str:
    return _share(tried.coverage(figure))


def _share(share: float) -> str:
    return "-" if math.isnan(share) else f"{share:.1%}"


def _name(tried: Trials) -> str:
    return f"{tried.world.name}, {tried.world.load}"


COMMON: Final[tuple[Column, ...]] = (
    *((figure, functools.partial(_coverage, figure=figure)) for figure in FIGURES),
    ("any wrong", lambda tried: f"{tried.wrong / len(tried.reports):.1%}"),
    ("found", lambda tried: _share(tried.detected(SPEED))),
)
LADDER: Final[tuple[Column, ...]] = (
    *((figure, functools.partial(_coverage, figure=figure)) for figure in (SPEED, COST)),
    ("lost", lambda tried: f"{tried.lost / len(tried.reports):.1%}"),
    ("any wrong", lambda tried: f"{tried.wrong / len(tried.reports):.1%}"),
    ("found", lambda tried: _share(tried.detected(CROSSOVERS[0]))),
)
GOOD: Final[tuple[Column, ...]] = (
    (GOODPUT, functools.partial(_coverage, figure=GOODPUT)),
    ("true", lambda tried: _share(next(iter(truths(tried.world).values())).goodput)),
)
STOPPING: Final[tuple[Column, ...]] = (
    ("rounds", lambda tried: f"{fmean(tried.rounds()):.1f}"),
    ("3x fewest", lambda tried: _share(_in_fewest(tried))),
)


if __name__ == "__main__":
    sys.exit(main())
