"""What a summary says, in the bench's own terms: the one place that reads a result's fields."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from benchmark import metrics
from benchmark.analysis.intervals import Interval
from benchmark.analysis.summary import Answer, Case, Summary
from benchmark.analysis.verdict import MARGIN
from tests.bench.simulation import SIDES, Truth

SPEED: Final = "speed"
COST: Final = "cost"
OVERALL: Final = ("all speed", "all cost")
"""The same over all test cases."""
TOKEN_SECONDS: Final = "TPOT"
"""Of the variant alone: the median of a typical round."""
TOKENS_PER_SECOND: Final = "tokens/s"
"""Of the variant alone, all requests together."""
FIGURES: Final = (SPEED, COST, *OVERALL, TOKEN_SECONDS, TOKENS_PER_SECOND)
"""What has an interval."""


@dataclass(frozen=True)
class Statement:
    """What is said of one figure, and what is true."""

    figure: str
    truth: float
    interval: Interval | None
    answer: Answer | None = None
    """None where the figure answers no question."""

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
        """Whether the variant is said to be better, and is."""
        return self.answer is Answer.BETTER and self.truth > 1

    @property
    def wrong(self) -> bool:
        """Whether a difference is claimed that there is not, or one that matters called negligible.

        A claim says which side is better, also where it says that this is too little to matter.
        """
        if self.interval is None or self.answer in (None, Answer.UNDECIDED):
            return False
        if self.answer is Answer.NEGLIGIBLE and self.matters:
            return True
        return (self.interval.point > 1) != (self.truth > 1) or self.truth == 1


def statements(summary: Summary, truths: Mapping[str, Truth]) -> list[Statement]:
    """All that a summary says; ``truths`` are those of its test cases by name."""
    found = [one for case in summary.cases for one in _of_case(case, truths[case.name])]
    for overall in summary.overall:
        means = [
            math.exp(math.fsum(map(math.log, true)) / len(true))
            for true in zip(*((truth.speed, truth.cost) for truth in truths.values()), strict=True)
        ]
        intervals = (overall.speed, overall.cost)
        found += map(Statement, OVERALL, means, intervals)
    return found


def _of_case(case: Case, truth: Truth) -> Iterator[Statement]:
    cell = case.cell(SIDES[1])
    assert cell.comparison is not None
    questions = (
        (SPEED, truth.speed, cell.comparison.speed),
        (COST, truth.cost, cell.comparison.cost),
    )
    for figure, true, claim in questions:
        if claim is not None:
            yield Statement(figure, true, claim.interval, claim.answer)
    seconds = cell.measure(metrics.TIME_PER_OUTPUT_TOKEN)
    if seconds is not None:
        yield Statement(TOKEN_SECONDS, truth.token_seconds, seconds.typical)
    yield Statement(TOKENS_PER_SECOND, truth.tokens_per_second, cell.tokens_per_second_interval)
