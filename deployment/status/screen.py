"""What the screen is made of, and how it is laid out."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from deployment.errors import DeploymentError
from spectap.printing import printable

_INDENT: Final = 10
_NAMES: Final = 28
"""The widest a name may be before it has a line of its own."""
_MOST_LINES: Final = 3
_NARROWEST: Final = 40


class Row(NamedTuple):
    """One thing, and how it stands."""

    name: str
    text: str


class Section(NamedTuple):
    """Things of one kind."""

    title: str
    rows: Sequence[Row]


def asked(title: str, rows: Callable[[], Iterable[Row]]) -> Section:
    """A section, or why it cannot be known: one that cannot be does not take the others along."""
    try:
        return Section(title, [*rows()])
    except DeploymentError as error:
        return Section(title, [Row("", f"not known: {error}")])


def rendered(sections: Iterable[Section], width: int) -> Iterator[str]:
    """The lines of ``sections`` that have rows, no longer than ``width``."""
    shown = [section for section in sections if section.rows]
    names = [len(row.name) for section in shown for row in section.rows]
    column = max((length for length in names if length <= _NAMES), default=0)
    for section in shown:
        for number, row in enumerate(section.rows):
            title = section.title if number == 0 else ""
            yield from _row(title, row, column, width)


def _row(title: str, row: Row, column: int, width: int) -> Iterator[str]:
    """A row without a name takes the place of name and text."""
    begin = f"{title:{_INDENT}}"
    indent = _INDENT
    if row.name and len(row.name) > column:
        yield printable(f"{begin}{row.name}")
        begin = " " * _INDENT
    elif row.name:
        begin += f"{row.name:{column}}  "
    if row.name:
        indent += column + 2
    room = max(width - indent, _NARROWEST)
    lines = textwrap.wrap(row.text, room, max_lines=_MOST_LINES, placeholder=" ...") or [""]
    for number, line in enumerate(lines):
        yield printable(f"{begin if number == 0 else '':{indent}}{line}".rstrip())
