"""Shares of right answers: whether the interval of a difference holds, and who is accused.

Prompts and how their answers come out are drawn at random.
"""

import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from benchmarks import harness
from benchmarks.harness import Bar, Group, Statement
from spectap.analysis.correctness import ALPHA
from spectap.analysis.proportions import Paired

DIFFERENCE: Final = "difference"


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

    @property
    def name(self) -> str:
        """Its parameters."""
        parts = self.prompts, self.answers, self.easy, self.doubt, self.broken, self.lost
        return " ".join(f"{part:g}" for part in parts)

    def statements(self, number: int) -> Iterator[Statement]:
        """The interval of the difference, and whether the variant is accused."""
        pair = self.run(np.random.default_rng([zlib.crc32(repr(self).encode()), number]))
        low, high = pair.interval()
        holds = low - 1e-9 <= self.truth <= high + 1e-9
        accused = pair.p <= ALPHA and self.broken == self.lost == 0
        yield Statement(DIFFERENCE, holds, wrong=accused, width=high - low)

    def run(self, random: np.random.Generator) -> Paired:
        """Answers of both sides."""
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


GROUPS: Final = (
    Group("answers", WORLDS, {DIFFERENCE: Bar(harness.PROMISED)}, 500),
    Group("equal answers", EQUAL, {DIFFERENCE: Bar(None, wrong=ALPHA)}, 500),
)
