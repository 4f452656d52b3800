"""Renders a view for a terminal: the headline, the tables, the sentences, the notes.

Where the output is not a terminal, such as a pod's log, sentences are not wrapped and nothing is
coloured. A table is never cut: columns that do not fit go on below.
"""

import shutil
import sys
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.text import Text

from spectap import wording
from spectap.inputs import config as configuration
from spectap.names import CONFIG
from spectap.report import offline, results, run_view
from spectap.report.view import Columns, Table, View
from spectap.wording import printable

WIDTH: Final = 120
"""The most columns that are used, also where the output is not a terminal."""
NARROW: Final = 80
"""The fewest columns that are used."""

_UNLIMITED: Final = 10_000  # columns: rich itself never wraps or cuts
_GAP: Final = "  "


def terminal_width() -> int | None:
    """The columns of the terminal; None where the output is not a terminal."""
    return shutil.get_terminal_size((WIDTH, 0)).columns if sys.stdout.isatty() else None


def render(run_dir: Path, columns: int | None = None, *, verbose: bool = False) -> str:
    """The text of the run in ``run_dir``, of services or of jobs.

    Raises what ``results.read`` and ``offline.read`` raise.
    """
    if configuration.read(run_dir / CONFIG).offline:
        view, _ = offline.read(run_dir)
    else:
        view = run_view.of_run(results.read(run_dir))
    return text(view, columns, verbose=verbose)


def text(view: View, columns: int | None = None, *, verbose: bool = False) -> str:
    """The view as plain text, which ends with a newline."""
    return "".join(f"{line.plain}\n" for line in _lines(view, columns, verbose=verbose))


def show(view: View, *, verbose: bool = False) -> None:
    """Prints a view, in colour where the output is a terminal."""
    columns = terminal_width()
    if columns is None:
        print(text(view, verbose=verbose), end="")
        return
    console = Console(file=sys.stdout, width=_UNLIMITED)
    for line in _lines(view, columns, verbose=verbose):
        console.print(line, soft_wrap=True)


def _lines(view: View, columns: int | None, *, verbose: bool) -> Iterator[Text]:
    """The lines of a view; ``verbose`` adds the details."""
    width = None if columns is None else max(NARROW, min(columns, WIDTH))
    yield from _sentences([view.title, *view.lead], width)
    if view.answers:
        yield Text()
        yield from _sentences(view.answers, width, style="bold")
    yield from _sentences(view.caveats, width)
    if view.alarms:
        yield Text()
        yield Text("ANSWERS GOT WORSE", "bold red")
        yield from _sentences(view.alarms, width, bullet="! ", style="red")
    for table, sentences in (*view.tables, *(view.details if verbose else ())):
        yield Text()
        if table.title:
            yield Text(printable(table.title), "bold")
        if table:
            yield from map(Text, _table(table, width or WIDTH))
        if table and sentences:
            yield Text()
        yield from _sentences(sentences, width)
    if notes := (*view.notes, *(view.remarks if verbose else ())):
        yield Text()
        yield from _sentences(notes, width, bullet="* ")
    if view.details and not verbose:
        yield Text()
        yield Text("More figures, and what columns mean: spectap report or read, with --verbose")


def _sentences(
    texts: Iterable[str], width: int | None, bullet: str = "", style: str = ""
) -> Iterator[Text]:
    """Wraps sentences at ``width`` and indents what follows the first line of each."""
    for text in texts:
        line = f"{bullet}{printable(text)}"
        lines = [line]
        if width is not None:
            lines = textwrap.wrap(
                wording.unbroken(line),
                width,
                subsequent_indent="  ",
                break_long_words=False,
                break_on_hyphens=False,
            )
        yield from (Text(row.replace("\N{NO-BREAK SPACE}", " "), style) for row in lines)


def _table(table: Table, width: int) -> Iterator[str]:
    """The lines of the table. Columns that do not fit go on below, with the same labels."""
    rows = [row for group in table.groups for row in group]
    labels = [_label(table, position) for position in range(len(table.labels))]
    columns = [
        _joined(heading, [row.values[number] for row in rows])
        for number, heading in enumerate(table.columns)
    ]
    while columns:
        used = sum(len(column[0]) + len(_GAP) for column in (*labels, columns[0]))
        last = 1
        while last < len(columns) and used + len(columns[last][0]) <= width:
            used += len(columns[last][0]) + len(_GAP)
            last += 1
        lines = [_GAP.join(texts) for texts in zip(*labels, *columns[:last], strict=True)]
        *head, body = lines[0], lines[1], iter(lines[2:])
        yield from (line.rstrip() for line in head)
        yield "─" * len(lines[0])
        for number, group in enumerate(table.groups):
            # A blank line stands between groups, unless each is one row.
            if number and max(map(len, table.groups)) > 1:
                yield ""
            yield from (next(body).rstrip() for _ in group)
        columns = columns[last:]
        if columns:
            yield ""


def _label(table: Table, position: int) -> list[str]:
    """A column of labels with its heading. A label equal to the one above is left out."""
    texts = ["", printable(table.labels[position])]
    for group in table.groups:
        labels = [printable(row.labels[position]) for row in group]
        is_last = position == len(table.labels) - 1
        texts += [
            "" if label == above and not is_last else label
            for above, label in zip([None, *labels], labels, strict=False)
        ]
    width = max(map(len, texts))
    return [f"{text:{width}}" for text in texts]


def _joined(columns: Columns, rows: Sequence[Sequence[str]]) -> list[str]:
    """Joins columns that belong together: two lines of heading, then a line for each row."""
    lines = [[*map(printable, texts)] for texts in (columns.names, *rows)]
    sizes = [max(map(len, texts)) for texts in zip(*lines, strict=True)]
    texts = [
        _GAP.join(f"{text:>{size}}" for text, size in zip(line, sizes, strict=True) if size)
        for line in lines
    ]
    title = f"{printable(columns.title):^{len(texts[0])}}"
    return [f"{text:>{len(title)}}" for text in (title, *texts)]
