"""The content of a report, which the terminal and the page both render."""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Columns:
    """Columns that belong together, under one title."""

    title: str
    names: tuple[str, ...]


@dataclass(frozen=True)
class Row:
    """One line of a table: its labels, then the texts of each group of columns."""

    labels: tuple[str, ...]
    values: tuple[tuple[str, ...], ...]
    colour: str = ""
    """Role of the colour of the variant or draft that the line is of."""
    alarming: bool = False
    """Whether its last value should alarm."""


@dataclass(frozen=True)
class Table:
    """Rows in groups. Within a group, a label that repeats is written once."""

    title: str
    labels: tuple[str, ...]
    columns: tuple[Columns, ...]
    groups: tuple[tuple[Row, ...], ...]
    coloured: int = -1
    """The position of the label that names the variant or draft; -1 for none."""

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
    """A report. The page adds sections of its own."""

    title: str
    lead: tuple[str, ...] = ()
    """How and when it was measured."""
    answers: tuple[str, ...] = ()
    """The headline, an answer a line: the number, the prompts, the load, how sure, what to do."""
    caveats: tuple[str, ...] = ()
    """Caveats that change what to do about the answers, a line each."""
    alarms: tuple[str, ...] = ()
    """Sentences on answers that got worse: the variant may be unfit to serve."""
    tables: tuple[tuple[Table, tuple[str, ...]], ...] = ()
    """The terminal's tables, each with the sentences below it."""
    notes: tuple[str, ...] = ()
    details: tuple[tuple[Table, tuple[str, ...]], ...] = ()
    """Further tables, which a terminal shows on request."""
    remarks: tuple[str, ...] = ()
    """Further notes, which a terminal shows with the details."""


def grouped(rows: Iterable[tuple[object, Row]]) -> tuple[tuple[Row, ...], ...]:
    """Groups rows by the key before each, in the order in which keys first appear."""
    groups: dict[object, list[Row]] = {}
    for key, row in rows:
        groups.setdefault(key, []).append(row)
    return tuple(map(tuple, groups.values()))
