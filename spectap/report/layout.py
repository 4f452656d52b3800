"""Text as wide as a terminal: sentences, and tables in several parts where they do not fit."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from spectap import wording
from spectap.printing import printable

WIDTH: Final = 120
"""The most columns that are used."""
NARROW: Final = 80
"""The fewest columns of a terminal; in so few, a table over loads leaves something out."""


@dataclass(frozen=True)
class Column:
    """A group of columns, written: its two heads and a text for each line of the table."""

    heads: tuple[str, str]
    lines: tuple[str, ...]

    @property
    def width(self) -> int:
        """In characters."""
        return max(map(len, (*self.heads, *self.lines)))


def page(lines: Iterable[str]) -> str:
    """The whole text, which ends with a newline. A newline within a line is replaced."""
    return "\n".join(printable(line).rstrip() for line in lines) + "\n"


def lines(
    labels: Sequence[Column],
    columns: Sequence[Column],
    last: Sequence[Column],
    starts: set[int],
    width: int,
) -> Iterator[str]:
    """The lines of one table, or of several with the same labels.

    The ``last`` columns stand at the right of the first one. A blank line is in front of the lines
    whose numbers are in ``starts``.
    """
    while columns or last:
        room = width - sum(column.width for column in (*labels, *last))
        shown = _fitting(columns, room, at_least=0 if last else 1)
        columns = columns[len(shown) :]
        yield from _table([*labels, *shown, *last], starts, width)
        last = ()


def _fitting(columns: Sequence[Column], room: int, at_least: int) -> Sequence[Column]:
    """As many of the columns as there is room for."""
    for number in range(at_least, len(columns)):
        if sum(column.width for column in columns[: number + 1]) > room:
            return columns[:number]
    return columns


def _table(columns: Sequence[Column], starts: set[int], width: int) -> Iterator[str]:
    def line(texts: Iterable[str]) -> str:
        return "".join(
            f"{text:<{column.width}}" for column, text in zip(columns, texts, strict=True)
        )

    yield ""
    for heads in zip(*(column.heads for column in columns), strict=True):
        yield line(heads)
    yield "─" * width
    for number, texts in enumerate(zip(*(column.lines for column in columns), strict=True)):
        if number and number in starts:
            yield ""
        yield line(texts)
    yield "─" * width


def wrapped(text: str, width: int, indent: int = 0) -> list[str]:
    """The lines of a text; all but the first are indented."""
    lines = textwrap.wrap(
        wording.unbroken(text), width, subsequent_indent=" " * indent, break_on_hyphens=False
    )
    return [line.replace("\N{NO-BREAK SPACE}", " ") for line in lines]
