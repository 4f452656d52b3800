"""Many runs of a world, each summed up as the project does it, and how often that was right."""

from __future__ import annotations

import math
import multiprocessing
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean, median

from scipy.stats import binom
from tqdm import tqdm

from spectap.analysis.stopping import last_rounds
from spectap.analysis.summarise import summarise
from tests.bench.simulation import configuration, records, truths
from tests.bench.statements import CROSSOVERS, SPEED, Statement, statements
from tests.bench.worlds import World


@dataclass(frozen=True)
class Report:
    """What is said of one run."""

    statements: Sequence[Statement]
    rounds: Sequence[int]
    """How many there were of each test case at each load, in their order."""


@dataclass(frozen=True)
class Trials:
    """What was said of many runs of one world."""

    world: World
    reports: Sequence[Report]

    def of(self, figure: str) -> Iterator[Statement]:
        """All that was said of one figure."""
        return (one for report in self.reports for one in report.statements if one.figure == figure)

    def held(self, figure: str) -> list[bool]:
        """Whether each of the figure's intervals holds the truth."""
        return [one.holds for one in self.of(figure) if one.holds is not None]

    def coverage(self, figure: str) -> float:
        """The share of the figure's intervals that hold the truth; NaN without an interval."""
        held = self.held(figure)
        return fmean(held) if held else math.nan

    def half_width(self, figure: str) -> float:
        """The median of how far an interval's bounds are from its middle, as a part of it (0.05:
        5 %); NaN without an interval."""
        spans = [one.interval for one in self.of(figure) if one.interval is not None]
        return median(math.sqrt(one.high / one.low) - 1 for one in spans) if spans else math.nan

    def width(self, figure: str) -> float:
        """The median distance between an interval's bounds."""
        return median(
            one.interval.high - one.interval.low for one in self.of(figure) if one.interval
        )

    def bounded(self, figure: str) -> float:
        """The share of crossovers that have both bounds."""
        return fmean(
            one.interval is not None and one.interval.low > 0 and one.interval.high < math.inf
            for one in self.of(figure)
        )

    @property
    def wrong(self) -> int:
        """How many reports have any wrong verdict."""
        return sum(any(one.wrong for one in report.statements) for report in self.reports)

    @property
    def lost(self) -> int:
        """How many reports have any crossover that claims a load wrongly."""
        return sum(
            any(one.holds is False for one in report.statements if one.figure in CROSSOVERS)
            for report in self.reports
        )

    @property
    def found(self) -> float:
        """The share of differences in speed that matter and are found; NaN where there is none."""
        found = [one.found for one in self.of(SPEED) if one.matters]
        return fmean(found) if found else math.nan

    def rounds(self, speedup: float | None = None) -> list[int]:
        """How many there were of each test case, of all or of those with that speed-up."""
        return [
            count
            for report in self.reports
            for count, own in zip(report.rounds, self.world.speedups, strict=True)
            if speedup in (own, None)
        ]


def report(world: World, number: int) -> Report:
    """What is said of one run of a world, of that number.

    All rounds are simulated, and those that the rule would not have measured are dropped: what a
    round shows does not depend on whether others follow.
    """
    config, measured = configuration(world), records(world, number)
    last = last_rounds(config, measured)
    measured = [record for record in measured if record.round <= last[record.case, record.load]]
    said = statements(summarise(config, measured), truths(world))
    return Report(said, [*last.values()])


def trials(worlds: Sequence[World], count: int) -> Iterator[Trials]:
    """That many runs of each world, on all cores, with a progress bar."""
    tasks = [(world, number) for world in worlds for number in range(count)]
    with multiprocessing.Pool() as pool, _progress(len(tasks)) as progress:
        reports = _each(pool.imap(_report, tasks, chunksize=20), progress)
        for world in worlds:
            yield Trials(world, [next(reports) for _ in range(count)])


def _progress(total: int) -> tqdm:
    return tqdm(total=total, unit="report", leave=False, disable=None)  # None: off a terminal


def _report(task: tuple[World, int]) -> Report:
    return report(*task)


def _each(reports: Iterable[Report], progress: tqdm) -> Iterator[Report]:
    for one in reports:
        progress.update()
        yield one


def likely(level: float, count: int, share: float) -> int:
    """The quantile of the binomial distribution: how many of ``count``, each with the chance
    ``share``, are not exceeded with the chance ``level``."""
    return int(binom.ppf(level, count, share))
