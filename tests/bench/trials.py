"""Many runs of a world, summarised as the project does it, and how often statements are right."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Final, NamedTuple

from spectap.analysis.claims import MARGIN
from spectap.analysis.estimates.intervals import Interval
from spectap.analysis.grouping import CasePoint
from spectap.analysis.stopping import last_rounds
from spectap.analysis.summarise import summarise
from spectap.analysis.summary import Answer, Claim, Crossover, Summary
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


class Statement(NamedTuple):
    """What is stated of one figure."""

    figure: str
    holds: bool | None
    """Whether it is true: whether an interval holds the truth; None without one."""
    wrong: bool = False
    """Whether it claims a difference that is not real, or calls one that matters negligible."""
    detected: bool | None = None
    """Whether what there is to find is: a difference that matters, both bounds of a crossover."""


def statements(
    summary: Summary, truths: Mapping[CasePoint, Truth], variants: Sequence[str] = SIDES[1:]
) -> Iterator[Statement]:
    """All that a summary says; ``truths`` are those of its test cases and loads by name, and of all
    ``variants``."""
    for case in summary.cases:
        by_load = {load: truth for (name, load), truth in truths.items() if name == case.name}
        for load in case.loads:
            assert load is not None
            for variant in variants:
                cell, truth = case.cell(variant, load), by_load[load.name]
                assert cell.comparison is not None
                if cell.comparison.speed is not None:
                    yield _of_claim(SPEED, truth.speed, cell.comparison.speed)
                if cell.comparison.cost is not None:
                    yield _of_claim(COST, truth.cost, cell.comparison.cost)
                if cell.goodput is not None and cell.goodput.interval is not None:
                    low, high = cell.goodput.interval
                    yield Statement(GOODPUT, low <= truth.goodput <= high)
        for ladder in case.ladders:
            at_loads = [(load.amount, by_load[load.name]) for load in ladder.loads]
            speeds = [(load, truth.speed) for load, truth in at_loads]
            costs = [(load, truth.cost) for load, truth in at_loads]
            yield _of_crossover(CROSSOVERS[0], ladder.speed, speeds)
            yield _of_crossover(CROSSOVERS[1], ladder.cost, costs)
    for overall in summary.overall:
        at = overall.load.name if overall.load else ""
        at_load = [(truth.speed, truth.cost) for (_, load), truth in truths.items() if load == at]
        means = [math.exp(fmean(map(math.log, true))) for true in zip(*at_load, strict=True)]
        for figure, mean, interval in zip(
            OVERALL, means, (overall.speed, overall.cost), strict=True
        ):
            yield Statement(figure, _within(interval, mean))


def _within(interval: Interval | None, truth: float) -> bool | None:
    return None if interval is None else interval.low <= truth <= interval.high


def _of_claim(figure: str, truth: float, claim: Claim) -> Statement:
    """A claim says which side is better, also where it says that this is too little to matter."""
    matters = not 1 / (1 + MARGIN) <= truth <= 1 + MARGIN
    wrong = claim.answer is not Answer.UNDECIDED and (
        (claim.answer is Answer.NEGLIGIBLE and matters)
        or (claim.interval.point > 1) != (truth > 1)
        or truth == 1
    )
    detected = claim.answer is Answer.BETTER and truth > 1 if matters else None
    return Statement(figure, _within(claim.interval, truth), wrong, detected)


def _of_crossover(
    figure: str, crossover: Crossover, truths: Sequence[tuple[float, float]]
) -> Statement:
    """True where each load that it claims is one at which the claim is true: the load at which the
    variant turns is then between its bounds. ``truths`` are pairs of a load and a ratio."""
    low, high = crossover.better_up_to or 0.0, crossover.worse_from or math.inf
    holds = all((load > low or r > 1) and (load < high or r < 1) for load, r in truths)
    return Statement(figure, holds, detected=crossover.bounded)


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

    def held(self, figure: str) -> list[bool]:
        """Whether each statement on a figure is true."""
        stated = (statement for report in self.reports for statement in report.statements)
        return [s.holds for s in stated if s.figure == figure and s.holds is not None]

    def coverage(self, figure: str) -> float:
        """The share of the statements on a figure that are true; NaN without any."""
        held = self.held(figure)
        return fmean(held) if held else math.nan

    def detected(self, figure: str) -> float:
        """The share of what there is to find that is found; NaN where there is nothing."""
        stated = (statement for report in self.reports for statement in report.statements)
        detected = [s.detected for s in stated if s.figure == figure and s.detected is not None]
        return fmean(detected) if detected else math.nan

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

    def rounds(self, speedup: float | None = None) -> list[int]:
        """How many there were of each test case, of all or of those with that speed-up."""
        return [
            count
            for report in self.reports
            for count, case_speedup in zip(report.rounds, self.world.speedups, strict=True)
            if speedup in (case_speedup, None)
        ]


def report(task: tuple[World, int]) -> Report:
    """The report on one run of a world, of that number.

    All rounds are simulated, and those that the rule would not have measured are dropped: what a
    round shows does not depend on whether others follow.
    """
    world, number = task
    config, measured = configuration(world), records(world, number)
    last = last_rounds(config, measured)
    measured = [record for record in measured if record.round <= last[record.case, record.load]]
    stated = statements(summarise(config, measured), truths(world))
    return Report([*stated], [*last.values()])


def trials(worlds: Sequence[World], count: int) -> Iterator[Trials]:
    """That many runs of each world."""
    reports = harness.run(report, [(world, n) for world in worlds for n in range(count)])
    for world in worlds:
        yield Trials(world, [next(reports) for _ in range(count)])
