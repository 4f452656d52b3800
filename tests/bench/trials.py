"""Many runs of a world, summarised as the project does it, and how often statements are right."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Final

from spectap.analysis.claims import MARGIN
from spectap.analysis.estimates.intervals import Interval
from spectap.analysis.grouping import CasePoint
from spectap.analysis.stopping import last_rounds
from spectap.analysis.summarise import summarise
from spectap.analysis.summary import Answer, Claim, Ladder, Summary
from tests.bench import harness
from tests.bench.simulation import SIDES, Truth, World, configuration, records, truths

SPEED: Final = "speed"
COST: Final = "cost"
OVERALL: Final = ("all speed", "all cost")
"""The same over all test cases."""
GOODPUT: Final = "goodput"
"""Of the variant alone."""
CROSSOVERS: Final = ("speed crossover", "cost crossover")
"""The load at which the variant turns from better to worse."""
FIGURES: Final = (SPEED, COST, *OVERALL)
"""What has an interval in every report."""


@dataclass(frozen=True)
class Statement:
    """What is stated of one figure, and the truth."""

    figure: str
    truth: float
    interval: Interval | None
    answer: Answer | None = None
    """None where the figure answers no question."""
    true: bool | None = None
    """Whether the statement is true; None where that is whether the interval holds the truth."""

    @property
    def holds(self) -> bool | None:
        """Whether the statement is true; None without an interval."""
        if self.interval is None or self.true is not None:
            return self.true
        return self.interval.low <= self.truth <= self.interval.high

    @property
    def matters(self) -> bool:
        """Whether the truth is further from 1 than a difference that changes nobody's decision."""
        return not 1 / (1 + MARGIN) <= self.truth <= 1 + MARGIN

    @property
    def wrong(self) -> bool:
        """Whether it claims a difference that is not real, or calls one that matters negligible.

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
    stated: list[Statement] = []
    for case in summary.cases:
        by_load = {load: truth for (name, load), truth in truths.items() if name == case.name}
        for load in case.loads:
            assert load is not None
            for variant in variants:
                cell, truth = case.cell(variant, load), by_load[load.name]
                compared, goodput = cell.comparison, cell.goodput
                assert compared is not None
                if compared.speed is not None:
                    stated.append(_claimed(SPEED, truth.speed, compared.speed))
                if compared.cost is not None:
                    stated.append(_claimed(COST, truth.cost, compared.cost))
                if goodput is not None and goodput.interval is not None:
                    interval = Interval(goodput.share, *goodput.interval)
                    stated.append(Statement(GOODPUT, truth.goodput, interval))
        for ladder in case.ladders:
            stated += _of_ladder(ladder, [by_load[load.name] for load in ladder.loads])
    for overall in summary.overall:
        at = overall.load.name if overall.load else ""
        at_load = [(truth.speed, truth.cost) for (_, load), truth in truths.items() if load == at]
        means = [math.exp(fmean(map(math.log, true))) for true in zip(*at_load, strict=True)]
        intervals = (overall.speed, overall.cost)
        stated += map(Statement, OVERALL, means, intervals)
    return stated


def _claimed(figure: str, truth: float, claim: Claim) -> Statement:
    return Statement(figure, truth, claim.interval, claim.answer)


def _of_ladder(ladder: Ladder, truths: Sequence[Truth]) -> Iterator[Statement]:
    """A crossover is true where each load that it claims is one at which the claim is true.

    The load at which the variant turns is then between its bounds. One that is missing is 0 or
    infinite.
    """
    loads = [load.amount for load in ladder.loads]
    for figure, crossover, ratios in (
        (CROSSOVERS[0], ladder.speed, [truth.speed for truth in truths]),
        (CROSSOVERS[1], ladder.cost, [truth.cost for truth in truths]),
    ):
        low, high = crossover.better_up_to or 0.0, crossover.worse_from or math.inf
        true = all(
            (load > low or ratio > 1) and (load < high or ratio < 1)
            for load, ratio in zip(loads, ratios, strict=True)
        )
        yield Statement(
            figure, math.nan, Interval(crossover.point or math.nan, low, high), true=true
        )


@dataclass(frozen=True)
class Report:
    """The statements on one run."""

    statements: Sequence[Statement]
    rounds: Sequence[int]
    """How many there were of each test case at each load, in their order."""


@dataclass(frozen=True)
class Trials:
    """The reports on many runs of one world."""

    world: World
    reports: Sequence[Report]

    def of(self, figure: str) -> list[Statement]:
        """All statements on one figure."""
        stated = (statement for report in self.reports for statement in report.statements)
        return [statement for statement in stated if statement.figure == figure]

    def held(self, figure: str) -> list[bool]:
        """Whether each of the figure's intervals holds the truth."""
        return [statement.holds for statement in self.of(figure) if statement.holds is not None]

    def coverage(self, figure: str) -> float:
        """The share of the figure's intervals that hold the truth; NaN without an interval."""
        held = self.held(figure)
        return fmean(held) if held else math.nan

    def bounded(self, figure: str) -> float:
        """The share of crossovers that have both bounds."""
        intervals = [statement.interval for statement in self.of(figure)]
        return fmean(bool(i and i.low > 0 and i.high < math.inf) for i in intervals)

    @property
    def wrong(self) -> int:
        """How many reports have any wrong verdict."""
        return sum(any(stated.wrong for stated in report.statements) for report in self.reports)

    @property
    def lost(self) -> int:
        """How many reports have any crossover that claims a load wrongly."""
        return sum(
            any(s.holds is False and s.figure in CROSSOVERS for s in report.statements)
            for report in self.reports
        )

    @property
    def power(self) -> float:
        """The share of differences in speed that matter and are found; NaN where there is none."""
        real = [s.answer is Answer.BETTER and s.truth > 1 for s in self.of(SPEED) if s.matters]
        return fmean(real) if real else math.nan

    def rounds(self, speedup: float | None = None) -> list[int]:
        """How many there were of each test case, of all or of those with that speed-up."""
        return [
            count
            for report in self.reports
            for count, case_speedup in zip(report.rounds, self.world.speedups, strict=True)
            if speedup in (case_speedup, None)
        ]


def report(world: World, number: int) -> Report:
    """The report on one run of a world, of that number.

    All rounds are simulated, and those that the rule would not have measured are dropped: what a
    round shows does not depend on whether others follow.
    """
    config, measured = configuration(world), records(world, number)
    last = last_rounds(config, measured)
    measured = [record for record in measured if record.round <= last[record.case, record.load]]
    stated = statements(summarise(config, measured), truths(world))
    return Report(stated, [*last.values()])


def trials(worlds: Sequence[World], count: int) -> Iterator[Trials]:
    """That many runs of each world."""
    reports = harness.run(_report, [(world, n) for world in worlds for n in range(count)])
    for world in worlds:
        yield Trials(world, [next(reports) for _ in range(count)])


def _report(task: tuple[World, int]) -> Report:
    return report(*task)
