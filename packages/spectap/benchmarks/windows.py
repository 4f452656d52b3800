"""Whether the best of the measured windows is among those that are called as good, where the truth
is known.

Sweeps are drawn at random (costs, draft models, acceptance, loads, windows, rounds) and measured on
golden schedules. 95 % of tables mark the best, and 95 % of intervals hold the speed.
"""

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from benchmarks.harness import PROMISED, Bar, Group, Statement, stated
from benchmarks.sweeps import BASELINE, Roofline, Rounded, Sweep
from spectap.analysis.summarise import summarise
from spectap.golden.schedule import FREE, Cost, Linear

BEST: Final = "marks the best"
SPEED: Final = "speed"

COSTS: Final[tuple[Callable[[random.Random], Cost], ...]] = (
    lambda _: FREE,
    lambda chance: Linear(chance.uniform(0.005, 0.05)),
    lambda chance: Roofline(chance.uniform(16, 80)),
    lambda chance: Rounded(chance.uniform(16, 60)),
)


@dataclass(frozen=True)
class Measured:
    """Sweeps drawn at random, a new one for each report; or one sweep again and again."""

    name: str
    wander: float | None = None
    sweep: Sweep | None = None

    def statements(self, number: int) -> Iterator[Statement]:
        """What the tables of one run are worth."""
        sweep = self.sweep or drawn(number, wander=self.wander)
        for windows in summarise(sweep.config(), sweep.records(number)).windows:
            load = windows.load.concurrency or 1
            truth = {BASELINE: 1.0} | {
                name: sweep.measured_speedup(windows.prompts, window, load, draft)
                for name, (window, draft) in sweep.variants.items()
            }
            near = {each.variant for each in windows.measured if each.near}
            best = max((each.variant for each in windows.measured), key=truth.__getitem__)
            yield Statement(BEST, found=float(best in near))
            for each in windows.measured:
                if each.variant != BASELINE:
                    yield stated(SPEED, each.speed, truth[each.variant])


def drawn(number: int, *, wander: float | None = None) -> Sweep:
    """A sweep like any other, of that number."""
    chance = random.Random(f"sweep {number}")
    first, slow = chance.uniform(0.01, 0.06), chance.uniform(1.3, 3)
    structured, open_ended = chance.uniform(0.75, 0.95), chance.uniform(0.4, 0.75)
    gain = chance.uniform(0, 0.05)
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
        round=chance.choice((0.002, 0.01)),
        wander=wander,
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
BARS: Final = {SPEED: Bar(), BEST: Bar(None, found=PROMISED)}
GROUPS: Final = (
    Group(
        "windows",
        (Measured("at once"), Measured("apart, wandering by 1 %", wander=0.01)),
        BARS,
        80,
    ),
    Group("close windows", [Measured("ten windows within 4 %", sweep=CLOSE)], BARS, 80),
)
