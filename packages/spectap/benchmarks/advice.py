"""Whether advice is as good, and as sure, as it says, where the truth is known.

Sweeps are drawn at random (costs, draft models, acceptance, loads, windows, rounds), measured on
golden schedules and advised on. 95 % of recommendations are within 2 % of the best of those
considered; 95 % name the best, as what may be as good, and so they name the least within 2 % of it.
"""

import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from benchmarks.harness import PROMISED, Bar, Group, Statement, stated
from benchmarks.sweeps import Roofline, Rounded, Sweep
from spectap.analysis.advice.advice import Advice, Choice, Prospect
from spectap.analysis.advice.advise import advise
from spectap.golden.schedule import FREE, Cost, Linear
from spectap.load_points import LoadPoint

NEAR: Final = 0.98
NEARLY: Final = "within 2 %"
"""Of the speed-up of the best."""
BEST: Final = "names the best"
LEAST: Final = "names the least near"

Case = tuple[str, int, str, LoadPoint | None]
"""Line, window, class and load."""

COSTS: Final[tuple[Callable[[random.Random], Cost], ...]] = (
    lambda _: FREE,
    lambda chance: Linear(chance.uniform(0.005, 0.05)),
    lambda chance: Roofline(chance.uniform(16, 80)),
    lambda chance: Rounded(chance.uniform(16, 60)),
)


@dataclass(frozen=True)
class Advised:
    """Sweeps drawn at random, a new one for each report; or one sweep again and again."""

    name: str
    wander: float | None = None
    sweep: Sweep | None = None

    def statements(self, number: int) -> Iterator[Statement]:
        """What the advice on one run of a sweep is worth."""
        sweep = self.sweep or drawn(number, wander=self.wander)
        advice = advise(sweep.config(), sweep.records(number))
        draft = {series.name: number for number, series in enumerate(advice.lines)}
        considered = {_case(prospect): prospect for prospect in advice.prospects}
        truth = {
            (line, window, name, load): sweep.measured_speedup(
                name, window, load.concurrency or 1 if load else 1, draft[line]
            )
            for line, window, name, load in considered
        }
        of_sets = " of sets" if sweep.prompts else ""
        for case, prospect in considered.items():
            figure = "predicted" if prospect.measured is None else "measured"
            yield stated(f"{figure}{of_sets}", prospect.speedup, truth[case])
        yield from _chosen(advice, truth)
        yield from _acceptances(sweep, advice, draft)


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


def _chosen(advice: Advice, truth: Mapping[Case, float]) -> Iterator[Statement]:
    """Whether a choice is as good as the best of those considered, but for 2 %; and whether what is
    as good is named."""
    for best in advice.recommendations:
        if best.prompt_class is not None:
            at = {Choice(None, None): 1.0} | {
                Choice(*c[:2]): speedup
                for c, speedup in truth.items()
                if c[2:] == (best.prompt_class, best.load)
            }
            near = sorted(at, key=at.__getitem__)
            near = [choice for choice in near if at[choice] >= NEAR * at[near[-1]]]
            named = {best.choice, *best.near}
            yield Statement(NEARLY, found=float(best.choice in near))
            yield Statement(BEST, found=float(near[-1] in named))
            yield Statement(LEAST, found=float(near[0] in named))


def _acceptances(sweep: Sweep, advice: Advice, draft: Mapping[str, int]) -> Iterator[Statement]:
    """Where prompts differ, those that reach a position are not all prompts."""
    for acceptance in advice.acceptances if not sweep.prompts else ():
        truth = sweep.acceptances[acceptance.prompt_class][draft[acceptance.line]]
        for position in acceptance.positions:
            if position.interval is not None:
                low, high = position.interval
                yield Statement("acceptance", low <= truth <= high, width=high - low)


RETURNING: Final = tuple(
    Advised(
        f"{prompts} prompts in each round",
        sweep=Sweep(
            f"{prompts} prompts",
            acceptances={"coding": (0.75,)},
            windows=(3, 7),
            tokens=200,
            prompts=prompts,
            requests=prompts,
            spread=0.1,
        ),
    )
    for prompts in (12, 24)
)
CLOSE: Final = Sweep(
    "close",
    draft_costs=(0.05, 0.053),
    acceptances={"coding": (0.8, 0.8)},
    windows=(7, 8, 9, 10, 11),
    tokens=200,
    prompts=1000,
    round=0.02,
)
INTERVALS: Final = ("acceptance", "measured", "predicted", "measured of sets")
BARS: Final = {
    **{figure: Bar() for figure in INTERVALS},
    NEARLY: Bar(None, found=PROMISED),
    **{figure: Bar(None, found=PROMISED) for figure in (BEST, LEAST)},
}
NAMED: Final = {figure: BARS[figure] for figure in ("measured of sets", BEST, LEAST)}
WORLDS: Final = (Advised("at once"), Advised("apart, wandering by 1 %", wander=0.01))
GROUPS: Final = (
    Group("advice", WORLDS, BARS, 80),
    Group("close", [Advised("ten windows within 4 %", sweep=CLOSE)], NAMED),
    Group("returning", RETURNING, BARS | {"measured of sets": Bar(0.90)}, 40),
)
