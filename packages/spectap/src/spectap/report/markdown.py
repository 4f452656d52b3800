"""Renders a view in GitHub's Markdown, as the summary of a job shows it."""

import re
from collections.abc import Iterable, Iterator
from typing import Final

from spectap.report.view import Table, View
from spectap.wording import printable

_MARKUP: Final = re.compile(r"([\\`*_\[\]<>|#~&])")


def text(view: View) -> str:
    """The headline, its caveats and the tables. It ends with an empty line."""
    return "\n\n".join((*_blocks(view), ""))


def _blocks(view: View) -> Iterator[str]:
    yield f"### {_plain(view.title)}"
    yield from (f"**{_plain(answer)}**" for answer in view.answers)
    if points := (*view.alarms, *view.caveats):
        yield _listed(points)
    for table, sentences in view.tables:
        yield "\n".join(_rows(table))
        yield from map(_plain, sentences)
    if view.notes:
        yield _listed(view.notes)


def _rows(table: Table) -> Iterator[str]:
    """The table's rows. Markdown's header has one line, so each name follows its columns' title."""
    names = [
        f"{columns.title} {name}".strip() for columns in table.columns for name in columns.names
    ]
    yield _row((*table.labels, *names))
    yield "|".join(("", *("---" for _ in table.labels), *("--:" for _ in names), ""))
    for row in (row for group in table.groups for row in group):
        yield _row((*row.labels, *(text for texts in row.values for text in texts)))


def _row(texts: Iterable[str]) -> str:
    return f"| {' | '.join(map(_plain, texts))} |"


def _listed(texts: Iterable[str]) -> str:
    return "\n".join(f"- {_plain(text)}" for text in texts)


def _plain(text: str) -> str:
    """The text with the characters escaped that Markdown or HTML would take for markup."""
    return _MARKUP.sub(r"\\\1", printable(text))
