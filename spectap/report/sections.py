"""The parts of the page that there are several of: of each test case, and of each load point."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from spectap.analysis.summary import Case
from spectap.report import crosschecks, loads, tables, verdicts
from spectap.report.crosschecks import Checked
from spectap.report.figures import Drawing
from spectap.report.results import Results
from spectap.report.tables import Table
from spectap.report.verdicts import Line


@dataclass(frozen=True)
class OfCase:
    """One test case at all load points."""

    case: Case
    table: Table
    lines: tuple[Line, ...]
    """The verdict on each of its cells that is compared."""
    drawings: tuple[Drawing, ...]
    """Of all load points."""


@dataclass(frozen=True)
class OfLoad:
    """All test cases at one load point."""

    name: str
    load: str
    """To stand after "at"."""
    drawings: tuple[Drawing, ...]
    tables: tuple[Table, ...]
    checked: tuple[tuple[str, tuple[Checked, ...]], ...]


def by_case(run: Results, drawings: Sequence[Drawing]) -> Iterator[OfCase]:
    """A part for each test case."""
    lines = [*verdicts.lines(run.summary)]
    for case in run.summary.cases:
        own = [drawing for drawing in drawings if drawing.case == case.name]
        yield OfCase(
            case=case,
            table=tables.of_case(case, run.summary),
            lines=tuple(line for line in lines if line.case is case),
            drawings=tuple(own),
        )


def by_load(run: Results, drawings: Sequence[Drawing]) -> Iterator[OfLoad]:
    """A part for each load point."""
    points = run.config.load.points
    for point in points:
        own = run if len(points) == 1 else run.at(point)
        yield OfLoad(
            name=point.name,
            load=loads.words([point]),
            drawings=tuple(d for d in drawings if d.load == point.name and not d.case),
            tables=tables.tables(own),
            checked=crosschecks.checked(own),
        )
