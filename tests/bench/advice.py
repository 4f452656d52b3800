"""Whether advice is as good, and as sure, as it says, where the truth is known.

``python -m tests.bench.advice [--count 200]``

Sweeps are drawn at random (costs, draft models, acceptance, loads, windows, rounds), measured on
golden schedules (``sweeps``) and advised on. The bars (missed as in ``statistics``):

- Probability: of the recommendations that are said to be the best with 40 to 60 %, 60 to 80 %,
  80 to 95 % and more, at least as many are as the lower end of the range says.
- Loss: 95 % of recommendations are within 2 % of the speed-up of the best of those considered.
- Coverage: intervals of acceptance, and of the speed-up of measured and of predicted windows, hold
  the truth in at least 93 %; so do those of prompt sets alone, whose prompts differ.

Ends with status 1, and names the bar, when one is missed. The same code gives the same figures.
"""

from __future__ import annotations

import math
import random
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import NormalDist
from typing import Final

from rehearsal.golden.schedule import FREE, Cost, Linear
from spectap.analysis.advice.advice import Advice, Prospect
from spectap.analysis.advice.advise import advise
from spectap.load_points import LoadPoint
from tests.bench import harness
from tests.bench.sweeps import Roofline, Rounded, Sweep

EDGES: Final = (0.0, 0.4, 0.6, 0.8, 0.95, 1.01)
NEAR: Final = 0.98

Case = tuple[str, int, str, LoadPoint | None]
"""Line, window, class and load."""

COSTS: Final[tuple[Callable[[random.Random], Cost], ...]] = (
    lambda _: FREE,
    lambda chance: Linear(chance.uniform(0.005, 0.05)),
    lambda chance: Roofline(chance.uniform(16, 80)),
    lambda chance: Rounded(chance.uniform(16, 60)),
)


@dataclass(frozen=True)
class Chosen:
    """What a recommendation is worth."""

    probability: float
    best: bool
    share: float
    """Its true speed-up, as a share of the best of those considered."""


@dataclass(frozen=True)
class Judged:
    """The advice on one sweep. Intervals: whether they hold the truth."""

    is_set: bool
    """Whether its prompts differ."""
    chosen: tuple[Chosen, ...]
    acceptance: tuple[bool, ...]
    measured: tuple[bool, ...]
    predicted: tuple[bool, ...]
    """Of windows that were not measured."""


def judge(task: tuple[Sweep, int]) -> Judged:
    """What the advice on one run of a sweep is worth."""
    sweep, seed = task
    advice = advise(sweep.config(), sweep.records(seed))
    draft = {series.name: number for number, series in enumerate(advice.lines)}
    considered = {_case(prospect): prospect for prospect in advice.prospects}
    truth = {
        (line, window, name, load): sweep.measured_speedup(
            name, window, load.concurrency or 1 if load else 1, draft[line]
        )
        for line, window, name, load in considered
    }
    measured, predicted = list[bool](), list[bool]()
    for case, prospect in considered.items():
        held = prospect.speedup.low <= truth[case] <= prospect.speedup.high
        (predicted if prospect.measured is None else measured).append(held)
    return Judged(
        is_set=bool(sweep.prompts),
        chosen=tuple(_chosen(advice, truth)),
        acceptance=tuple(_acceptances(sweep, advice, draft)),
        measured=tuple(measured),
        predicted=tuple(predicted),
    )


def _case(prospect: Prospect) -> Case:
    return prospect.line, prospect.window, prospect.prompt_class, prospect.load


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


def _chosen(advice: Advice, truth: Mapping[Case, float]) -> Iterator[Chosen]:
    for best in advice.recommendations:
        if best.prompt_class is not None:
            at = {c[:2]: s for c, s in truth.items() if c[2:] == (best.prompt_class, best.load)}
            highest = max(1.0, *at.values())
            speedup = at.get((best.choice.line or "", best.choice.window or 0), 1.0)
            yield Chosen(best.probability, speedup == highest, speedup / highest)


def _acceptances(sweep: Sweep, advice: Advice, draft: Mapping[str, int]) -> Iterator[bool]:
    """Where prompts differ, those that reach a position are not all prompts."""
    for acceptance in advice.acceptances if not sweep.prompts else ():
        truth = sweep.acceptances[acceptance.prompt_class][draft[acceptance.line]]
        for position in acceptance.positions:
            if position.interval is not None:
                yield position.interval[0] <= truth <= position.interval[1]


def main() -> int:
    """Prints the tables; returns 1 where a bar is missed."""
    count = harness.count(__doc__, 200)
    worlds = {"at once": None, "apart, wandering by 1 %": 0.01}
    return harness.status(
        line for title, wander in worlds.items() for line in _missed(title, wander, count)
    )


def _missed(title: str, wander: float | None, count: int) -> Iterator[str]:
    sweeps = [*harness.run(judge, [(drawn(n, wander=wander), n) for n in range(count)])]
    print(f"\n{count} sweeps, variants measured {title}")
    chosen = [each for judged in sweeps for each in judged.chosen]
    for low, high in pairwise(EDGES):
        right = [each.best for each in chosen if low <= each.probability < high]
        if right:
            share = sum(right) / len(right)
            print(
                f"said with {low:4.0%} to {min(1, high):4.0%}: "
                f"{share:6.1%} of {len(right)} are the best"
            )
            if sum(right) < harness.likely(harness.SELDOM, len(right), low):
                yield f"{title}: {share:.1%} are the best, said with {low:.0%} or more"
    near = sum(each.share >= NEAR for each in chosen)
    print(f"within 2 % of the best speed-up: {near / len(chosen):.1%}")
    if near < harness.likely(harness.SELDOM, len(chosen), harness.PROMISED):
        yield f"{title}: {near} of {len(chosen)} recommendations are within 2 % of the best"
    for field in ("acceptance", "measured", "predicted"):
        for of, some in (("", sweeps), (" of sets", [each for each in sweeps if each.is_set])):
            by_sweep = [getattr(judged, field) for judged in some if getattr(judged, field)]
            if by_sweep:
                amount, share, likely_share = _coverage(by_sweep)
                coverage = f"{share:.1%} of {amount}"
                print(f"intervals of {field}{of}: {coverage} hold the truth")
                if share < harness.LOWEST and likely_share < harness.PROMISED:
                    yield f"{title}: {coverage} of the intervals of {field}{of} hold"


def _coverage(by_sweep: Sequence[Sequence[bool]]) -> tuple[int, float, float]:
    """How many intervals there are, the share that holds, and the highest true share that would
    show so few once in a thousand: intervals of one sweep are not independent, sweeps are."""
    amount = sum(map(len, by_sweep))
    share = sum(map(sum, by_sweep)) / amount
    excess = [sum(held) - share * len(held) for held in by_sweep]
    error = math.sqrt(sum(each**2 for each in excess)) / amount
    return amount, share, share + NormalDist().inv_cdf(1 - harness.SELDOM) * error


if __name__ == "__main__":
    sys.exit(main())
