"""The content of a report, without a form: the terminal and the page render the same view."""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Columns:
    """Columns that belong together, under one title."""

    title: str
    names: tuple[str, ...]


@dataclass(frozen=True)
class Row:
    """The texts of one line of a table: its labels, then those of each group of columns."""

    labels: tuple[str, ...]
    values: tuple[tuple[str, ...], ...]
    colour: str = ""
    """Role of the colour of the variant or draft that the line is of."""
    alarming: bool = False
    """Whether its last value is one to look into."""


@dataclass(frozen=True)
class Table:
    """Rows in groups. A label that is the same as in the row above is written once in a group."""

    title: str
    labels: tuple[str, ...]
    columns: tuple[Columns, ...]
    groups: tuple[tuple[Row, ...], ...]
    coloured: int = -1
    """Which label is the name of the variant or draft."""

    def __bool__(self) -> bool:
        return any(self.groups)


@dataclass(frozen=True)
class Figure:
    """A drawing."""

    name: str
    title: str
    caption: str
    case: str = ""
    """The test case that it shows; empty where it shows several."""
    load: str = ""
    """The name of the load point that it shows; empty where it shows all."""
    svg: str = ""


@dataclass(frozen=True)
class View:
    """A report: what is said first, and what a terminal has room for. The page has sections too."""

    title: str
    lead: tuple[str, ...] = ()
    """The measurement: how and when."""
    answers: tuple[str, ...] = ()
    """The headline, a line each: the number, for whom, at what load, how sure, what to do."""
    caveats: tuple[str, ...] = ()
    """What changes what to do about the answers, a line each."""
    alarms: tuple[str, ...] = ()
    """How a variant's answers got worse: it may be unfit to be served."""
    tables: tuple[tuple[Table, tuple[str, ...]], ...] = ()
    """The terminal's tables, each with the sentences below it."""
    notes: tuple[str, ...] = ()
    details: tuple[tuple[Table, tuple[str, ...]], ...] = ()
    """Further tables of a terminal, which it shows where it is asked to."""
    remarks: tuple[str, ...] = ()
    """Further notes, which a terminal shows with the details."""


def grouped(rows: Iterable[tuple[object, Row]]) -> tuple[tuple[Row, ...], ...]:
    """Rows in groups by what stands before each, in the order in which that comes first."""
    groups: dict[object, list[Row]] = {}
    for key, row in rows:
        groups.setdefault(key, []).append(row)
    return tuple(map(tuple, groups.values()))
