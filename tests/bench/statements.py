"""What a summary says, in the bench's own terms: the one place that reads a result's fields."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Final

from spectap import metrics
from spectap.analysis.claims import MARGIN
from spectap.analysis.estimates.intervals import Interval
from spectap.analysis.grouping import CasePoint
from spectap.analysis.summary import Answer, Cell, Ladder, Summary
from tests.bench.simulation import SIDES, Truth

SPEED: Final = "speed"
COST: Final = "cost"
OVERALL: Final = ("all speed", "all cost")
"""The same over all test cases."""
TOKEN_SECONDS: Final = "TPOT"
"""Of the variant alone: the median of a typical round."""
TOKENS_PER_SECOND: Final = "tokens/s"
"""Of the variant alone, all requests together."""
GOODPUT: Final = "goodput"
"""Of the variant alone."""
CROSSOVERS: Final = ("speed crossover", "cost crossover")
"""The load at which the variant turns from better to worse."""
FIGURES: Final = (SPEED, COST, *OVERALL, TOKEN_SECONDS, TOKENS_PER_SECOND)
"""What has an interval in every report."""


@dataclass(frozen=True)
class Statement:
    """What is said of one figure, and what is true."""

    figure: str
    truth: float
    interval: Interval | None
    answer: Answer | None = None
    """None where the figure answers no question."""
    true: bool | None = None
    """Whether what is said is true; None where that is whether the interval holds the truth."""

    @property
    def holds(self) -> bool | None:
        """Whether what is said is true; None without an interval."""
        if self.interval is None or self.true is not None:
            return self.true
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


def statements(
    summary: Summary, truths: Mapping[CasePoint, Truth], variants: Sequence[str] = SIDES[1:]
) -> list[Statement]:
    """All that a summary says; ``truths`` are those of its test cases and loads by name, and of all
    ``variants``."""
    found: list[Statement] = []
    for case in summary.cases:
        own = {load: truth for (name, load), truth in truths.items() if name == case.name}
        for load in case.loads:
            assert load is not None
            for variant in variants:
                found += _of_cell(case.cell(variant, load), own[load.name])
        for ladder in case.ladders:
            found += _of_ladder(ladder, [own[load.name] for load in ladder.loads])
    for overall in summary.overall:
        at = overall.load.name if overall.load else ""
        same = [(truth.speed, truth.cost) for (_, load), truth in truths.items() if load == at]
        means = [math.exp(fmean(map(math.log, true))) for true in zip(*same, strict=True)]
        intervals = (overall.speed, overall.cost)
        found += map(Statement, OVERALL, means, intervals)
    return found


def _of_cell(cell: Cell, truth: Truth) -> Iterator[Statement]:
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
    if cell.goodput is not None and cell.goodput.interval is not None:
        bounds = Interval(cell.goodput.share, *cell.goodput.interval)
        yield Statement(GOODPUT, truth.goodput, bounds)


def _of_ladder(ladder: Ladder, truths: Sequence[Truth]) -> Iterator[Statement]:
    """A crossover is true where each load that it claims is one at which the claim is true.

    The load at which the variant turns is then between its bounds. One that is missing is 0 or
    infinite.
    """
    loads = [load.amount for load in ladder.loads]
    for figure, found, ratios in (
        (CROSSOVERS[0], ladder.speed, [truth.speed for truth in truths]),
        (CROSSOVERS[1], ladder.cost, [truth.cost for truth in truths]),
    ):
        low, high = found.better_up_to or 0.0, found.worse_from or math.inf
        true = all(
            (load > low or ratio > 1) and (load < high or ratio < 1)
            for load, ratio in zip(loads, ratios, strict=True)
        )
        yield Statement(figure, math.nan, Interval(found.point or math.nan, low, high), true=true)
