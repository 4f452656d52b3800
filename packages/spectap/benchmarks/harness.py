"""Worlds whose truth is known, what reports on them state, and how often that is true.

A bench is a list of groups. Each prints a table: a line for each world and each figure of its
reports, with the share of intervals that hold the truth, of reports that claim anything wrong, of
what there is to find that is found, and how wide intervals are. Bars are missed where a method that
keeps its promise would miss them once in a thousand executions. The same code gives the same
figures, on any machine.
"""

import argparse
import math
import multiprocessing
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import NormalDist, fmean
from typing import Final, NamedTuple, Protocol

from scipy.stats import binom

from spectap.analysis.estimate import Interval

PROMISED: Final = 0.95
"""The share of intervals that hold the truth, by the reports."""
SELDOM: Final = 0.001
"""How likely a method that keeps what it promises misses a bar."""
ANY: Final = "any claim"
"""All figures of a report."""


class Statement(NamedTuple):
    """What a report states of one figure."""

    figure: str
    holds: bool | None = None
    """Whether its interval holds the truth; None without one."""
    wrong: bool = False
    """Whether it claims what is not true."""
    found: float | None = None
    """Whether what there is to find is found; None where there is nothing."""
    width: float = math.nan
    """Of the interval: the logarithm of its upper end by its lower end."""


class World(Protocol):
    """What is random in a report, and what is true."""

    @property
    def name(self) -> str:
        """What is particular about it."""

    def statements(self, number: int) -> Iterable[Statement]:
        """What the report of that number states; the same number, the same report."""


@dataclass(frozen=True)
class Bar:
    """What a figure has to keep; None: anything."""

    hold: float | None = 0.93
    """The least share of intervals that holds the truth."""
    wrong: float | None = None
    """The largest share of reports that claims anything wrong."""
    found: float | None = None
    """The least share that is found."""
    hold_at_most: float | None = None
    """The largest share that holds the truth: with more, intervals are needlessly wide."""


@dataclass(frozen=True)
class Group:
    """Worlds with the same bars, by figure."""

    name: str
    worlds: Sequence[World]
    bars: Mapping[str, Bar] = field(default_factory=dict)
    count: int = 100
    """Reports of each world."""


def stated(figure: str, interval: Interval, truth: float, **more: bool) -> Statement:
    """What an interval states of a ratio."""
    width = math.log(interval.high / interval.low)
    return Statement(figure, interval.low <= truth <= interval.high, width=width, **more)


def main(groups: Sequence[Group]) -> int:
    """Prints the table of each group; returns 1, and names the bars, where some are missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("only", nargs="*", help=", ".join(group.name for group in groups))
    parser.add_argument("--world", default="", help="a part of a world's name: only these")
    parser.add_argument("--count", type=int, help="reports of each world")
    chosen = parser.parse_args()
    missed: list[str] = []
    for group in groups:
        if not chosen.only or group.name in chosen.only:
            worlds = [world for world in group.worlds if chosen.world in world.name]
            missed += _missed(group, worlds, chosen.count or group.count)
    return status(missed)


def status(missed: Sequence[str]) -> int:
    """Names each bar that was missed; the exit status."""
    print("".join(f"\nmissed: {line}" for line in missed) or "\nevery bar is met")
    return 1 if missed else 0


def _missed(group: Group, worlds: Sequence[World], count: int) -> Iterator[str]:
    began = time.monotonic()
    titles = ("intervals", "hold", "wrong", "found", "width")
    print(f"\n{group.name}, {count:,} reports of each world")
    print(f"{'':<62}" + "".join(f"{title:>10}" for title in titles))
    tasks = [(world, number) for world in worlds for number in range(count)]
    with multiprocessing.Pool() as pool:
        reports = pool.imap(_report, tasks, chunksize=5)
        for world in worlds:
            of_world = [next(reports) for _ in range(count)]
            # Worlds of one name may differ in their load.
            title = name = f"{world.name}{getattr(world, 'shape', '')}"
            for figure, figures in _figures(of_world).items():
                cells = "".join(f"{cell:>10}" for cell in figures.cells)
                print(f"{name:<42}{figure:<20}{cells}", flush=True)
                name = ""
                for problem in figures.problems(group.bars.get(figure, Bar(None))):
                    yield f"{group.name}, {title}: {figure}: {problem}"
    print(f"in {time.monotonic() - began:.0f} s")


def _report(task: tuple[World, int]) -> list[Statement]:
    world, number = task
    return [*world.statements(number)]


@dataclass(frozen=True)
class _Figures:
    """Of all reports of a world, what they state of one figure."""

    reports: Sequence[Sequence[Statement]]

    @property
    def stated(self) -> list[Statement]:
        return [statement for report in self.reports for statement in report]

    @property
    def held(self) -> list[list[bool]]:
        """Of each report that has intervals, whether they hold."""
        known = ([s.holds for s in report if s.holds is not None] for report in self.reports)
        return [of_report for of_report in known if of_report]

    @property
    def share(self) -> float:
        return _mean([held for report in self.held for held in report])

    @property
    def discoveries(self) -> list[list[float]]:
        """Of each report that has something to find, whether it is found."""
        known = ([s.found for s in report if s.found is not None] for report in self.reports)
        return [of_report for of_report in known if of_report]

    @property
    def wrong(self) -> int:
        return sum(any(statement.wrong for statement in report) for report in self.reports)

    @property
    def found(self) -> float:
        return _mean([found for report in self.discoveries for found in report])

    @property
    def cells(self) -> list[str]:
        width = _mean([s.width for s in self.stated if not math.isnan(s.width)])
        shares = self.share, self.wrong / len(self.reports), self.found, width
        count = sum(map(len, self.held))
        return [f"{count:,}", *("-" if math.isnan(each) else f"{each:.1%}" for each in shares)]

    def problems(self, bar: Bar) -> Iterator[str]:
        """Each part of the bar that is missed."""
        reach = _reach(self.held)
        if bar.hold is not None and self.share < bar.hold and self.share + reach < PROMISED:
            yield f"{self.share:.1%} of intervals hold the truth, {bar.hold:.1%} must"
        most = bar.hold_at_most
        if most is not None and self.share > most and self.share - reach > PROMISED:
            yield f"{self.share:.1%} of intervals hold the truth: they are needlessly wide"
        if bar.wrong is not None:
            allowed = int(binom.ppf(1 - SELDOM, len(self.reports), bar.wrong))
            if self.wrong > allowed:
                yield f"{self.wrong} of {len(self.reports)} reports are wrong, {allowed} may be"
        if bar.found is not None and not self.found + _reach(self.discoveries) >= bar.found:
            yield f"{self.found:.1%} are found, {bar.found:.1%} must be"


def _figures(reports: Sequence[Sequence[Statement]]) -> dict[str, _Figures]:
    """By figure; last, where there are several, all of them together: whether any is wrong."""
    names = dict.fromkeys(statement.figure for report in reports for statement in report)
    by_figure = {
        name: _Figures([[s for s in report if s.figure == name] for report in reports])
        for name in names
    }
    if len(by_figure) > 1:
        claims = [[Statement(ANY, wrong=s.wrong) for s in report] for report in reports]
        by_figure[ANY] = _Figures(claims)
    return by_figure


def _reach(reports: Sequence[Sequence[float]]) -> float:
    """How far the share of what is true may be off by chance: the statements of one report are not
    independent, reports are."""
    count = max(1, sum(map(len, reports)))
    share = sum(map(sum, reports)) / count
    excess = [sum(values) - share * len(values) for values in reports]
    return NormalDist().inv_cdf(1 - SELDOM) * math.hypot(*excess) / count


def _mean(values: Sequence[float]) -> float:
    return fmean(values) if values else math.nan
