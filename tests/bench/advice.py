"""Whether advice is as good, and as sure, as it says, where the truth is known.

``python -m tests.bench.advice [--sweeps 200]``

Sweeps are drawn at random (costs, draft models, acceptance, loads, windows, rounds), measured on
golden schedules (``sweeps``) and advised on. The bars; how the error of the simulation is judged
stands in ``tests.bench.statistics``:

- Probability: of the recommendations that are said to be the best with 40 to 60 %, 60 to 80 %,
  80 to 95 % and more, at least as many are as the lower end of the range says.
- Loss: 95 % of recommendations are within 2 % of the speed-up of the best.
- Coverage: intervals of acceptance, and of the speed-up of measured and of predicted windows, hold
  the truth in at least 93 %; so do those of prompt sets alone, whose prompts differ. Missed where
  a method that keeps 95 % would be so far below only once in a thousand simulations.

A window that is not considered, because the model of its line misses what was measured or because
prompts differ, is in none of these. So the loss against the best of all windows stands beside that
of those considered, and how many windows are predicted.

Ends with status 1, and names the bar, when one is missed. The same code gives the same figures.
"""

from __future__ import annotations

import argparse
import math
import multiprocessing
import random
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import NormalDist
from typing import Final

from tqdm import tqdm

from rehearsal.golden.cost import Constant, Cost, Linear, Roofline, Rounded
from spectap.analysis.advice.advice import Advice, Prospect
from spectap.analysis.advice.advise import advise
from spectap.analysis.estimates.intervals import Interval
from spectap.load_points import LoadPoint
from tests.bench.sweeps import Sweep
from tests.bench.trials import likely

EDGES: Final = (0.0, 0.4, 0.6, 0.8, 0.95, 1.01)
NEAR: Final = 0.98
PROMISED: Final = 0.95
LOWEST: Final = 0.93
SELDOM: Final = 0.001

Case = tuple[str, int, str, LoadPoint | None]
"""Line, window, class and load."""

COSTS: Final[tuple[Callable[[random.Random], Cost], ...]] = (
    lambda _: Constant(),
    lambda chance: Linear(chance.uniform(0.005, 0.05)),
    lambda chance: Roofline(chance.uniform(16, 80)),
    lambda chance: Rounded(chance.uniform(16, 60)),
)


@dataclass(frozen=True)
class Chosen:
    """What a recommendation is worth."""

    probability: float
    best: bool
    part: float
    """Its true speed-up, as a part of the best of those considered."""
    of_all: float
    """The same of the best of all windows."""


@dataclass(frozen=True)
class Judged:
    """The advice on one sweep. Intervals: whether they hold the truth."""

    is_set: bool
    """Whether its prompts differ."""
    windows: int
    """That could be predicted."""
    chosen: tuple[Chosen, ...]
    acceptance: tuple[bool, ...]
    measured: tuple[bool, ...]
    predicted: tuple[bool, ...]
    others: tuple[bool, ...]
    """Of predictions of measured windows from the others."""


def judge(sweep: Sweep, seed: int) -> Judged:
    """What the advice on one run of a sweep is worth."""
    advice = advise(sweep.config(), sweep.records(seed))
    draft = {line.name: number for number, line in enumerate(advice.lines)}
    truth_of_all = {
        (line.name, window, name, load): sweep.measured_speedup(
            name, window, _requests(load), draft[line.name]
        )
        for line in advice.lines
        for window in range(2, max(line.windows) + 1)
        for name, load in dict.fromkeys((one.prompt_class, one.load) for one in advice.prospects)
    }
    considered = {(one.line, one.window, one.prompt_class, one.load) for one in advice.prospects}
    truth = {case: truth_of_all[case] for case in considered}

    def holds(one: Prospect, interval: Interval) -> bool:
        speed = truth[one.line, one.window, one.prompt_class, one.load]
        return interval.low <= speed <= interval.high

    return Judged(
        is_set=bool(sweep.prompts),
        windows=len(truth_of_all) - sum(one.measured is not None for one in advice.prospects),
        chosen=tuple(_chosen(advice, truth, truth_of_all)),
        acceptance=tuple(_acceptances(sweep, advice, draft)),
        measured=tuple(holds(one, one.measured) for one in advice.prospects if one.measured),
        predicted=tuple(
            holds(one, one.predicted)
            for one in advice.prospects
            if one.predicted and not one.measured
        ),
        others=tuple(
            holds(one, one.predicted) for one in advice.prospects if one.predicted and one.measured
        ),
    )


def drawn(number: int, *, wander: float | None = None) -> Sweep:
    """A sweep like any other, of that number."""
    chance = random.Random(f"sweep {number}")
    first, slow = chance.uniform(0.01, 0.06), chance.uniform(1.3, 3)
    structured, open_ended = chance.uniform(0.75, 0.95), chance.uniform(0.4, 0.75)
    gain = chance.uniform(0, 0.05)
    spread = chance.choice((0.0, 0.0, 0.05))
    return Sweep(
        f"drawn {number}",
        cost=chance.choice(COSTS)(chance),
        draft_costs=(first, first * slow),
        acceptances={
            "structured": (structured, min(0.98, structured + gain)),
            "open-ended": (open_ended, open_ended + gain),
        },
        windows=chance.choice(((3, 7, 15), (3, 5, 9, 15), (4, 8))),
        loads=chance.choice(((1,), (4,), (1, 4))),
        rounds=chance.randint(3, 10),
        tokens=200,
        prompts=1000 if spread else 0,
        spread=spread,
        round=chance.choice((0.002, 0.01)),
        wander=wander,
    )


def _chosen(
    advice: Advice, truth: Mapping[Case, float], truth_of_all: Mapping[Case, float]
) -> Iterator[Chosen]:
    for one in advice.recommendations:
        if one.prompt_class is None:
            continue
        here, every = (
            {
                (line, window): speed
                for (line, window, prompt_class, load), speed in of.items()
                if (prompt_class, load) == (one.prompt_class, one.load)
            }
            for of in (truth, truth_of_all)
        )
        best = max(1.0, *here.values())
        own = 1.0
        if one.choice.line is not None and one.choice.window is not None:
            own = here[one.choice.line, one.choice.window]
        of_all = own / max(1.0, *every.values())
        yield Chosen(one.probability, own == best, own / best, of_all)


def _acceptances(sweep: Sweep, advice: Advice, draft: Mapping[str, int]) -> Iterator[bool]:
    """Where prompts differ, those that reach a position are not all prompts."""
    for one in advice.acceptances if not sweep.prompts else ():
        truth = sweep.acceptances[one.prompt_class][draft[one.line]]
        for position in one.positions:
            if position.interval is not None:
                yield position.interval[0] <= truth <= position.interval[1]


def _requests(load: LoadPoint | None) -> int:
    assert load is not None
    assert load.concurrency is not None
    return load.concurrency


def main() -> int:
    """Prints the tables; returns 1 where a bar is missed."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--sweeps", type=int, default=200, help="in each world")
    count = arguments.parse_args().sweeps
    missed = [
        line
        for title, wander in (("at once", None), ("apart, wandering by 1 %", 0.01))
        for line in _world(title, wander, count)
    ]
    for line in missed:
        print(f"MISSED: {line}")
    return 1 if missed else 0


def _world(title: str, wander: float | None, count: int) -> Iterator[str]:
    tasks = [(drawn(number, wander=wander), number) for number in range(count)]
    with multiprocessing.Pool() as pool:
        found = list(tqdm(pool.imap(_judge, tasks), total=count, leave=False, disable=None))
    print(f"\n{count} sweeps, variants measured {title}")
    chosen = [one for judged in found for one in judged.chosen]
    for low, high in pairwise(EDGES):
        right = [one.best for one in chosen if low <= one.probability < high]
        if right:
            share = sum(right) / len(right)
            print(
                f"said with {low:4.0%} to {min(1, high):4.0%}: "
                f"{share:6.1%} of {len(right)} are the best"
            )
            if sum(right) < likely(SELDOM, len(right), low):
                yield f"{title}: {share:.1%} are the best, said with {low:.0%} or more"
    near = [one.part >= NEAR for one in chosen]
    of_all = sum(one.of_all >= NEAR for one in chosen) / len(chosen)
    print(
        f"within 2 % of the best speed-up: {sum(near) / len(near):.1%} of those considered, "
        f"{of_all:.1%} of all windows"
    )
    if sum(near) < likely(SELDOM, len(near), PROMISED):
        yield f"{title}: {sum(near)} of {len(near)} recommendations are within 2 % of the best"
    predicted = sum(len(judged.predicted) for judged in found)
    print(f"windows predicted: {predicted / sum(judged.windows for judged in found):.1%}")
    for what in ("acceptance", "measured", "predicted", "others"):
        for of, some in (("", found), (" of sets", [one for one in found if one.is_set])):
            by_sweep = [getattr(judged, what) for judged in some if getattr(judged, what)]
            if not by_sweep:
                continue
            count, share, likely_share = _coverage(by_sweep)
            said = f"{share:.1%} of {count}"
            print(f"intervals of {what}{of}: {said} hold the truth; bar {LOWEST:.0%}")
            if what != "others" and share < LOWEST and likely_share < PROMISED:
                yield f"{title}: {said} of the intervals of {what}{of} hold"


def _coverage(by_sweep: Sequence[Sequence[bool]]) -> tuple[int, float, float]:
    """How many intervals there are, the share that holds, and the highest true share that would
    show so few once in a thousand: intervals of one sweep are not independent, sweeps are."""
    count = sum(map(len, by_sweep))
    share = sum(map(sum, by_sweep)) / count
    excess = [sum(held) - share * len(held) for held in by_sweep]
    error = math.sqrt(sum(each**2 for each in excess)) / count
    return count, share, share + NormalDist().inv_cdf(1 - SELDOM) * error


def _judge(task: tuple[Sweep, int]) -> Judged:
    return judge(*task)


if __name__ == "__main__":
    sys.exit(main())
