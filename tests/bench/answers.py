"""What a summary answers, in the bench's own terms: the one place that reads a result's fields."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from benchmark.analysis.intervals import Interval
from benchmark.analysis.summary import Answer as Said
from benchmark.analysis.summary import Case, Claim, Summary
from benchmark.analysis.verdict import MARGIN
from tests.bench.worlds import SIDES, Truth

QUESTIONS: Final = ("speed", "cost")
"""What a comparison answers."""
OWN: Final = "tokens/s"
"""The variant's tokens a second, of all requests together."""
FIGURES: Final = (*QUESTIONS, OWN)
"""What has an interval."""


@dataclass(frozen=True)
class Answer:
    """What is said of one figure of a test case, and what is true."""

    figure: str
    interval: Interval | None
    said: Said | None
    """None where no verdict is given."""
    truth: float

    @property
    def holds(self) -> bool | None:
        """Whether the interval holds the truth; None without an interval."""
        if self.interval is None:
            return None
        return self.interval.low <= self.truth <= self.interval.high

    @property
    def matters(self) -> bool:
        """Whether the truth is further from 1 than a difference that changes nobody's decision."""
        return not 1 / (1 + MARGIN) <= self.truth <= 1 + MARGIN

    @property
    def found(self) -> bool:
        """Whether it is said to be better and is."""
        return self.said is Said.BETTER and self.truth > 1

    @property
    def wrong(self) -> bool:
        """Whether what is said is not true: better, worse, or better or worse by a trifle."""
        return (
            (self.said is Said.BETTER and self.truth <= 1)
            or (self.said is Said.WORSE and self.truth >= 1)
            or (self.said is Said.NEGLIGIBLE and self.truth == 1)
        )


def answers(summary: Summary, truths: Mapping[str, Truth]) -> list[Answer]:
    """All that a summary answers; ``truths`` are those of its test cases by name."""
    return [answer for case in summary.cases for answer in _of_case(case, truths[case.name])]


def _of_case(case: Case, truth: Truth) -> list[Answer]:
    cell = case.cell(SIDES[1])
    compared = cell.comparison
    assert compared is not None
    speed, cost = QUESTIONS
    return [
        _claimed(speed, compared.speed, truth.speed),
        _claimed(cost, compared.cost, truth.cost),
        Answer(OWN, cell.tokens_per_second_interval, None, truth.tokens_per_second[1]),
    ]


def _claimed(figure: str, claim: Claim | None, truth: float) -> Answer:
    if claim is None:
        return Answer(figure, None, None, truth)
    return Answer(figure, claim.interval, claim.answer, truth)
