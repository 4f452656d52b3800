"""Renders a view for a terminal: the headline, the tables of cells, the sentences, the notes.

Where the output is no terminal, such as a pod's log, sentences are not wrapped and nothing is
coloured. A table is never cut: where its columns do not fit, it goes on below.
"""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from io import StringIO
from itertools import islice
from pathlib import Path
from typing import Final

from rich import box
from rich.console import Console, RenderableType
from rich.table import Table as Grid
from rich.text import Text

from spectap import wording
from spectap.printing import printable
from spectap.record import Record
from spectap.report import results, run_view
from spectap.report.results import Results
from spectap.report.view import Columns, Table, View

WIDTH: Final = 120
"""The most columns that are used, also where the output is no terminal."""
NARROW: Final = 80
"""The fewest."""

_UNLIMITED: Final = 10_000  # columns: rich itself never wraps or cuts
_GAP: Final = "  "


def terminal_width() -> int | None:
    """The columns of the terminal; None where the output is no terminal."""
    return shutil.get_terminal_size((WIDTH, 0)).columns if sys.stdout.isatty() else None


def render(run_dir: Path, columns: int | None = None) -> str:
    """The text of the run in ``run_dir``. Raises what ``results.read`` raises."""
    return text(run_view.of_run(results.read(run_dir)), columns)


def text(view: View, columns: int | None = None) -> str:
    """The view as plain text, which ends with a newline."""
    file = StringIO()
    _print(view, Console(file=file, width=_UNLIMITED, color_system=None), columns)
    return "".join(f"{line.rstrip()}\n" for line in file.getvalue().splitlines())


def show_run(run: Results) -> None:
    """Prints a run that has been read already."""
    show(run_view.of_run(run))


def show_ledgers(records: Iterable[Record]) -> None:
    """Prints ledgers without a configuration."""
    show(run_view.of_ledgers(records))


def show(view: View) -> None:
    """Prints a view, in colour where the output is a terminal."""
    columns = terminal_width()
    if columns is None:
        print(text(view), end="")
    else:
        _print(view, Console(file=sys.stdout, width=_UNLIMITED), columns)


def _print(view: View, console: Console, columns: int | None) -> None:
    width = None if columns is None else max(NARROW, min(columns, WIDTH))
    for renderable in _parts(view, width):
        console.print(renderable, markup=False, highlight=False, emoji=False, soft_wrap=True)


def _parts(view: View, width: int | None) -> Iterator[RenderableType]:
    """Lines and tables, from the title to the last note."""
    yield from _lines([view.title, *view.lead], width)
    if view.headline:
        yield ""
        yield from _lines([view.headline], width, style="bold")
    yield from _lines((*view.findings, *view.advice), width)
    if view.alarms:
        yield ""
        yield Text("ANSWERS GOT WORSE", "bold red")
        yield from _lines(view.alarms, width, bullet="! ", style="red")
    for table, sentences in view.tables:
        yield ""
        if table.title:
            yield Text(printable(table.title), "bold")
        if table:
            yield from _tables(table, width or WIDTH)
        if table and sentences:
            yield ""
        yield from _lines(sentences, width)
    if notes := (*view.notes, *view.remarks):
        yield ""
        yield from _lines(notes, width, bullet="* ")


def _lines(
    texts: Iterable[str], width: int | None, bullet: str = "", style: str = ""
) -> Iterator[Text]:
    """Sentences, wrapped at ``width``; what follows the first line of each is indented."""
    for text in texts:
        line = f"{bullet}{printable(text)}"
        lines = [line]
        if width is not None:
            lines = textwrap.wrap(
                wording.unbroken(line), width, subsequent_indent="  ", break_on_hyphens=False
            )
        yield from (Text(row.replace("\N{NO-BREAK SPACE}", " "), style) for row in lines)


def _tables(table: Table, width: int) -> Iterator[RenderableType]:
    """The table, or several with the same labels where its columns do not fit."""
    rows = [row for group in table.groups for row in group]
    columns = [
        _joined(heading, [row.values[number] for row in rows])
        for number, heading in enumerate(table.columns)
    ]
    labels = _labels(table)
    labels_width = sum(max(map(len, label)) + len(_GAP) for label in labels)
    first = 0
    while first < len(columns):
        room, last = width - labels_width, first
        while last < len(columns):
            size = max(len(line) for text in columns[last] for line in text.split("\n"))
            room -= size + len(_GAP)
            if room + len(_GAP) < 0 and last > first:
                break
            last += 1
        if first:
            yield ""
        yield _grid(table, labels, columns[first:last])
        first = last


def _grid(table: Table, labels: Sequence[Sequence[str]], columns: Sequence[Sequence[str]]) -> Grid:
    # The box puts a space between columns.
    padding = (0, len(_GAP) - 1, 0, 0)
    grid = Grid(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=padding)
    for head, *_ in labels:
        grid.add_column(Text(head), no_wrap=True, vertical="bottom")
    for head, *_ in columns:
        grid.add_column(Text(head), justify="right", no_wrap=True)
    lines = zip(*(column[1:] for column in (*labels, *columns)), strict=True)
    spaced = max(map(len, table.groups)) > 1
    for number, group in enumerate(table.groups):
        # A blank line stands between groups, unless each is one row.
        if number and spaced:
            grid.add_row()
        for texts in islice(lines, len(group)):
            grid.add_row(*map(Text, texts))
    return grid


def _labels(table: Table) -> list[list[str]]:
    """Each column of labels under its head; what the row above has as well is left out."""
    columns = []
    for position, head in enumerate(table.labels):
        texts = [f"\n{printable(head)}"]
        for group in table.groups:
            labels = [printable(row.labels[position]) for row in group]
            is_last = position == len(table.labels) - 1
            texts += [
                "" if label == above and not is_last else label
                for above, label in zip([None, *labels], labels, strict=False)
            ]
        columns.append(texts)
    return columns


def _joined(columns: Columns, rows: Sequence[Sequence[str]]) -> list[str]:
    """Columns that belong together as one: its head in two lines, then a text for each row."""
    names = [*map(printable, columns.names)]
    sizes = [max(map(len, texts)) for texts in zip(names, *rows, strict=True)]

    def line(texts: Sequence[str]) -> str:
        parts = zip(texts, sizes, strict=True)
        return _GAP.join(f"{printable(text):>{size}}" for text, size in parts if size)

    head = line(names)
    return [f"{printable(columns.title):^{len(head)}}\n{head}", *map(line, rows)]
