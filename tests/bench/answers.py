"""Whether the intervals of shares of right answers hold the truth, and who is accused.

``python -m tests.bench.answers [--count 1000]``

Prompts and how their answers come out are drawn at random, summed up as the report does it, and
held against the truth. Ends with status 1, and names the bar, when one is missed: when a method
that keeps what it promises would have it once in a thousand simulations.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from spectap.analysis.correctness import ALPHA
from spectap.analysis.estimates.proportions import Paired
from tests.bench import harness


@dataclass(frozen=True)
class World:
    """Prompts and how their answers come out. All but the counts are probabilities."""

    prompts: int
    answers: int
    """To each prompt."""
    easy: float
    """That the baseline answers a prompt rightly as a rule."""
    doubt: float = 0.0
    """That an answer is otherwise than the rule of its prompt."""
    broken: float = 0.0
    """That a right answer becomes a wrong one."""
    lost: float = 0.0
    """That a prompt is never answered rightly any more."""

    @property
    def share(self) -> float:
        """Of the baseline's answers that are right."""
        return self.easy * (1 - self.doubt) + (1 - self.easy) * self.doubt

    @property
    def truth(self) -> float:
        """The difference of the shares."""
        return self.share * ((1 - self.broken) * (1 - self.lost) - 1)

    def run(self, random: np.random.Generator) -> Paired:
        rule = np.where(random.random(self.prompts) < self.easy, 1 - self.doubt, self.doubt)
        answered = random.random(self.prompts) >= self.lost
        speculative = (
            random.binomial(self.answers, rule * (1 - self.broken) * answered) / self.answers
        )
        baseline = random.binomial(self.answers, rule) / self.answers
        return Paired(speculative.tolist(), baseline.tolist())


WORLDS: Final = (
    World(10, 1, easy=1.0),
    World(10, 1, easy=1.0, broken=0.3),
    World(10, 1, easy=0.5, doubt=0.3),
    World(20, 1, easy=0.8, doubt=0.1, broken=0.1),
    World(60, 1, easy=1.0, broken=0.02),
    World(60, 1, easy=0.8, broken=0.1),
    World(164, 1, easy=0.8, doubt=0.1),
    World(164, 1, easy=0.95, broken=0.1, lost=0.03),
    World(10, 10, easy=1.0, broken=0.1, lost=0.03),
    World(20, 10, easy=1.0, broken=0.02, lost=0.03),
    World(60, 4, easy=0.95, broken=0.02, lost=0.03),
    World(60, 10, easy=0.8, doubt=0.1, broken=0.1),
)
EQUAL: Final = tuple(
    World(60, answers, easy, doubt)
    for answers in (1, 4)
    for easy, doubt in ((1.0, 0.0), (0.95, 0.02), (0.8, 0.1), (0.5, 0.3))
)


def main() -> int:
    """Prints each rate beside its bar; returns 1 where one is missed."""
    return harness.status(_missed(harness.count(__doc__, 1000)))


def _missed(runs: int) -> Iterator[str]:
    random = np.random.default_rng(8)
    for world in WORLDS:
        held = 0
        for _ in range(runs):
            low, high = world.run(random).interval()
            held += low - 1e-9 <= world.truth <= high + 1e-9
        least = harness.likely(harness.SELDOM, runs, harness.PROMISED)
        print(f"{world}: the interval holds in {held / runs:.1%}; bar {least / runs:.1%}")
        if held < least:
            yield f"{world}: {held} of {runs}"
    for world in EQUAL:
        accused = sum(world.run(random).p <= ALPHA for _ in range(runs))
        most = harness.likely(1 - harness.SELDOM, runs, ALPHA)
        print(f"{world}: accused in {accused / runs:.1%}; bar {most / runs:.1%}")
        if accused > most:
            yield f"{world}: {accused} of {runs} accused"


if __name__ == "__main__":
    sys.exit(main())
