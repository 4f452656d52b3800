"""Advice in a terminal: what to serve first, then what that rests on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from spectap.analysis.advice.advice import Advice
from spectap.names import ADVICE
from spectap.report import layout, loads
from spectap.report.advice import tables, words
from spectap.report.advice.tables import Table
from spectap.report.layout import NARROW, WIDTH, Column, wrapped
from spectap.report.results import Results

_GAP: Final = 2
_COLUMNS: Final = (
    "Tokens are those of a step. A window that was measured is predicted, too: from the others of "
    "its draft alone. How sure: the probability that nothing considered is better."
)

_OTHERS: Final = f"Other windows are in {ADVICE}."


def render(advice: Advice, heading: str, stand_in: str | None, columns: int) -> str:
    """All of it, at most ``columns`` wide, but no narrower than ``NARROW``. Ends with a newline."""
    width = max(NARROW, min(columns, WIDTH))
    lines = wrapped(heading, width)
    lines += _serve(advice, stand_in, width)
    if advice.recommendations:
        lines += ["", *_table(tables.recommended(advice, rivals=False), width)]
        if every := words.mix(advice):
            lines += wrapped(f"The mix is {every} of the output tokens.", width)
    shown = tables.of(advice, every=_few(advice))
    for table in shown:
        lines += ["", *_table(table, width)]
    left_out = () if shown == tables.of(advice) else (_OTHERS,)
    for note in (*left_out, _COLUMNS, *words.caveats(advice)):
        lines += wrapped(f"* {note}", width, indent=2)
    return layout.page(lines)


def heading(run: Results) -> str:
    """What the advice is on."""
    what = "a rehearsal of " if run.summary.rehearsal else ""
    return (
        f"Advice on {what}{run.config.experiment}: {run.summary.subject}, on {run.config.model} "
        f"at {loads.words(run.config.load.points)}"
    )


def _few(advice: Advice) -> bool:
    """Whether there is room for every window: not where several loads have a table each."""
    return len({one.load for one in advice.prospects}) == 1


def _serve(advice: Advice, stand_in: str | None, width: int) -> Iterator[str]:
    """What to serve, and what to measure next."""
    yield ""
    if advice.rehearsal:
        yield from wrapped(words.stood_in(stand_in), width)
    for sentence in (*words.said(advice), *advice.cautions):
        yield from wrapped(sentence, width)
    for sentence in words.measure_next(advice):
        yield from wrapped(f"Next: {sentence}", width, indent=6)


def _table(table: Table, width: int) -> Iterator[str]:
    rows = [row for body in table.bodies for row in body]
    sizes = [len(body) for body in table.bodies]
    starts = {sum(sizes[:number]) for number in range(len(sizes))} if max(sizes) > 1 else set()
    gap = " " * _GAP
    labels = []
    for place, heading in enumerate(table.labels):
        texts = [row.labels[place] for row in rows]
        if place < len(table.labels) - 1:
            texts = _once(texts, starts)
        labels.append(Column(("", heading + gap), tuple(text + gap for text in texts)))
    columns = [
        _column(title, headings, [row.groups[place] for row in rows])
        for place, (title, headings) in enumerate(table.groups)
    ]
    yield table.title
    # Without the blank line above it: the title stands there.
    yield from [*layout.lines(labels, columns, (), starts, width)][1:]


def _once(texts: Sequence[str], starts: set[int]) -> list[str]:
    """The texts without those that the line before has as well."""
    return [
        "" if number and number not in starts and text == texts[number - 1] else text
        for number, text in enumerate(texts)
    ]


def _column(title: str, headings: Sequence[str], lines: Sequence[Sequence[str]]) -> Column:
    sizes = [
        width + _GAP if (width := max(map(len, texts))) else 0
        for texts in zip(headings, *lines, strict=True)
    ]

    def joined(texts: Sequence[str]) -> str:
        return "".join(f"{text:>{size}}" for text, size in zip(texts, sizes, strict=True))

    width = max(sum(sizes), len(title) + _GAP)
    return Column(
        (f"{title:>{width}}", f"{joined(headings):>{width}}"),
        tuple(f"{joined(texts):>{width}}" for texts in lines),
    )
