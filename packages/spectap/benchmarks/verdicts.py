"""What a summary states, held against the truth."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Final

from benchmarks.harness import ANY, Bar, Statement, stated
from spectap.analysis.estimate import MARGIN
from spectap.analysis.grouping import CasePoint
from spectap.analysis.summary import Case, Crossover, Ladder, Summary
from spectap.analysis.verdicts import Answer, Claim

SPEED: Final = "speed"
COST: Final = "cost"
OVERALL: Final = ("all speed", "all cost")
"""The same over all test cases."""
GOODPUT: Final = "goodput"
"""Of the variant alone."""
AT_ONCE: Final = "3x, fewest rounds"
"""Test cases that are three times as fast, and end in the fewest rounds allowed."""
EQUALITY: Final = "equality"
"""Claims on what differs by less than matters: whether they say so."""
SENTENCES: Final = "sentences"
"""The answers of a ladder's rows, which the headline is made of: all of them are true, and name
each load that is clearly better or worse."""
CROSSOVERS: Final = "crossovers"
"""The loads at which a variant turns from better to worse: of a report, all or none hold."""


_CLEAR: Final = math.log(1.2)


@dataclass(frozen=True)
class Truth:
    """What is true of a test case. Ratios are above 1 where the variant is better."""

    speed: float
    """The variant's output tokens by end-to-end latency, by the baseline's: the geometric mean over
    rounds of the ratio of a round's medians, or over prompts of each one's ratio."""
    cost: float
    """The variant's tokens per second by the baseline's, of all requests together."""
    goodput: float = math.nan
    """The variant's share of requests that keep the objective; NaN without one."""


def statements(
    summary: Summary, truths: Mapping[CasePoint, Truth], variants: Sequence[str] = ("SD",)
) -> Iterator[Statement]:
    """All that a summary says; ``truths`` are those of its test cases and loads by name, and of all
    ``variants``."""
    for case in summary.cases:
        by_load = {load: truth for (name, load), truth in truths.items() if name == case.name}
        for load in case.loads:
            for variant in variants:
                cell, truth = case.cell(variant, load), by_load[load.name if load else ""]
                assert cell.comparison is not None
                if cell.comparison.speed is not None:
                    yield claimed(SPEED, truth.speed, cell.comparison.speed)
                    if not _matters(truth.speed):
                        equal = cell.comparison.speed.answer is Answer.NEGLIGIBLE
                        yield Statement(EQUALITY, found=float(equal))
                if cell.comparison.cost is not None:
                    yield claimed(COST, truth.cost, cell.comparison.cost)
                if cell.goodput is not None and cell.goodput.interval is not None:
                    low, high = cell.goodput.interval
                    yield Statement(GOODPUT, low <= truth.goodput <= high)
        for ladder in case.ladders:
            yield _said(case, ladder, truths)
    if ladders := [(case.name, ladder) for case in summary.cases for ladder in case.ladders]:
        holds = [_crossovers(ladder, truths, name) for name, ladder in ladders]
        found = fmean(ladder.speed.bounded for _, ladder in ladders)
        yield Statement(CROSSOVERS, all(holds), found=found)
    for overall in summary.overall:
        at = overall.load.name if overall.load else ""
        of_load = [(truth.speed, truth.cost) for (_, load), truth in truths.items() if load == at]
        means = [math.exp(fmean(map(math.log, true))) for true in zip(*of_load, strict=True)]
        intervals = overall.speed, overall.cost
        for figure, mean, interval in zip(OVERALL, means, intervals, strict=True):
            if interval is not None:
                yield stated(figure, interval, mean)


def _wrong(answer: Answer, truth: float) -> bool:
    true = {
        Answer.BETTER: truth > 1,
        Answer.WORSE: truth < 1,
        Answer.NEGLIGIBLE: not _matters(truth),
        Answer.UNDECIDED: True,
    }
    return not true[answer]


def _matters(truth: float) -> bool:
    return not 1 / (1 + MARGIN) <= truth <= 1 + MARGIN


def claimed(figure: str, truth: float, claim: Claim) -> Statement:
    """A claim says which side is better, or that the difference is too little to matter."""
    wrong = _wrong(claim.answer, truth)
    found = (
        float(claim.answer in (Answer.BETTER, Answer.WORSE) and not wrong)
        if _matters(truth)
        else None
    )
    return stated(figure, claim.interval, truth, wrong=wrong)._replace(found=found)


def _said(case: Case, ladder: Ladder, truths: Mapping[CasePoint, Truth]) -> Statement:
    comparisons = {load: case.cell(ladder.variant, load).comparison for load in ladder.judged}
    said = {load: c.speed.answer for load, c in comparisons.items() if c and c.speed}
    ratios = {load: truths[case.name, load.name].speed for load in ladder.judged}
    wrong = any(_wrong(said[load], ratio) for load, ratio in ratios.items())
    clear = [load for load, ratio in ratios.items() if abs(math.log(ratio)) > _CLEAR]
    return Statement(
        SENTENCES,
        wrong=wrong,
        found=fmean(said[p] is not Answer.UNDECIDED for p in clear) if clear else None,
    )


def _crossovers(ladder: Ladder, truths: Mapping[CasePoint, Truth], case: str) -> bool:
    """Whether each load that either crossover claims is one at which the claim is true."""
    at_loads = [(load.amount, truths[case, load.name]) for load in ladder.loads]
    return all(
        _holds(crossover, [(load, getattr(truth, figure)) for load, truth in at_loads])
        for figure, crossover in ((SPEED, ladder.speed), (COST, ladder.cost))
    )


def _holds(crossover: Crossover, truths: Sequence[tuple[float, float]]) -> bool:
    low, high = crossover.better_up_to or 0.0, crossover.worse_from or math.inf
    return all((load > low or r > 1) and (load < high or r < 1) for load, r in truths)


VERDICTS: Final = {ANY: Bar(None, wrong=0.05)}
"""At most one report in twenty says anything wrong."""
FIGURES: Final = {figure: Bar() for figure in (SPEED, COST, *OVERALL)}
"""What has an interval in every report."""
