"""Two runs against each other, for the terminal: a table, and what of it is real."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from spectap import wording
from spectap.analysis.changes import CellChange, Change, Changes, Figure
from spectap.report import layout, loads
from spectap.report.layout import NARROW, WIDTH, Column, wrapped

_GAP: Final = "  "
_HEADS: Final = {
    Figure.TOKENS_PER_STEP: "tokens a step",
    Figure.SPEED_UP: "request speed-up",
    Figure.TIME_PER_OUTPUT_TOKEN: "decoding: TPOT, ms",
    Figure.TTFT: "TTFT, ms",
    Figure.TOKENS_PER_SECOND: "tokens/s together",
}
_MOST_SETTINGS: Final = 20


def render(changes: Changes, columns: int = WIDTH) -> str:
    """The table and the sentences; as wide as the table of a run. Ends with a newline."""
    width = max(NARROW, min(columns, WIDTH))
    lines = [
        *wrapped(f"{changes.new} (new) against {changes.old} (old)", width),
        *(line for text in _incomparable(changes) for line in wrapped(text, width, indent=2)),
        *_table(changes, width),
        "",
        *_paragraphs(_verdict(changes), width),
        *_paragraphs(_gate(changes), width),
        *(line for note in _notes(changes) for line in wrapped(f"* {note}", width, indent=2)),
    ]
    return layout.page(lines)


def _paragraphs(sentences: Iterator[str], width: int) -> list[str]:
    lines = [line for text in sentences for line in wrapped(text, width, indent=2)]
    return [*lines, ""] if lines else []


def _incomparable(changes: Changes) -> Iterator[str]:
    if changes.incomparable:
        yield "NOT COMPARABLE: they measured different things, so nothing below is judged."
        yield from (
            f"  {name}: {before} before, {now} now" for name, before, now in changes.incomparable
        )


def _table(changes: Changes, width: int) -> Iterator[str]:
    cells = changes.cells
    if not cells:
        return
    names = [cell.test_case for cell in cells]
    starts = {place for place, name in enumerate(names) if name not in names[:place]}
    several = len({cell.load for cell in cells}) > 1
    labels = [
        _column("test case", [wording.short(name) for name in names], starts),
        *([_column("load", [loads.short(cell.load) for cell in cells])] if several else ()),
        _column("", [wording.short(cell.variant) for cell in cells]),
    ]
    figures = [
        _figure(figure, cells) for figure in Figure if any(figure in one.figures for one in cells)
    ]
    yield from layout.lines(labels, figures, [], starts, width)


def _column(head: str, texts: Sequence[str], shown: set[int] | None = None) -> Column:
    kept = [text if shown is None or place in shown else "" for place, text in enumerate(texts)]
    size = max(map(len, (head, *kept))) + len(_GAP)
    return Column(("", f"{head:<{size}}"), tuple(f"{text:<{size}}" for text in kept))


def _figure(figure: Figure, cells: Sequence[CellChange]) -> Column:
    rows = [_texts(figure, one.figures.get(figure)) for one in cells]
    heads = ("old", "new", "change", "95 %")
    sizes = [max(map(len, texts)) for texts in zip(heads, *rows, strict=True)]

    def line(texts: Sequence[str]) -> str:
        *numbers, bounds = texts
        written = [f"{text:>{size}}" for text, size in zip(numbers, sizes, strict=False)]
        return _GAP * 2 + _GAP.join([*written, f"{bounds:<{sizes[-1]}}"])

    width = len(line(heads))
    return Column(
        (f"{_GAP * 2}{_HEADS[figure]:<{width - 2 * len(_GAP)}}", line(heads)),
        tuple(map(line, rows)),
    )


def _texts(figure: Figure, change: Change | None) -> tuple[str, str, str, str]:
    if change is None:
        return "", "", wording.MISSING, ""
    mark = "?" if figure.judged and not change.real else ""
    ratio = change.ratio
    return (
        _value(figure, change.old),
        _value(figure, change.new),
        wording.change(ratio.point) + mark,
        f"{_signed(ratio.low)} to {_signed(ratio.high)}",
    )


def _value(figure: Figure, value: float) -> str:
    if figure is Figure.SPEED_UP:
        return f"{value:.2f}x"
    if figure is Figure.TOKENS_PER_STEP:
        return f"{value:.2f}"
    if figure is Figure.TOKENS_PER_SECOND:
        return wording.significant(value)
    return wording.milliseconds(value)


def _signed(ratio: float) -> str:
    return wording.change(ratio).removesuffix(" %")


def _verdict(changes: Changes) -> Iterator[str]:
    judged = [*changes.judged]
    if changes.incomparable:
        return
    if not judged:
        yield "No figure that a verdict rests on is in both runs: tokens a step or a speed-up."
        return
    real = [one for one in judged if one[2].real]
    if real:
        amount = wording.count(len(real), "difference")
        yield f"{amount} of {len(judged)} {'is' if len(real) == 1 else 'are'} real:"
        yield from (
            f"  {_place(changes, cell)}: {_said(figure, one)}." for cell, figure, one in real
        )
    else:
        yield (
            f"No difference is proven: the {len(judged)} tokens a step and speed-ups differ by no "
            "more than chance."
        )
    unseen = [one.detectable for _, _, one in judged if not one.real]
    if unseen:
        least, most = (wording.percent(one) for one in (min(unseen), max(unseen)))
        span = f"{least} %" if least == most else f"{least} to {most} %, depending on the row,"
        yield f'Where there is a "?", a change of {span} would probably have been seen.'


def _said(figure: Figure, change: Change) -> str:
    low, high = sorted((_size(change.ratio.low), _size(change.ratio.high)))
    span = f"95 % interval {wording.percent(low)}-{wording.percent(high)} %"
    size = wording.percent(_size(change.ratio.point))
    old, new = _value(figure, change.old), _value(figure, change.new)
    fewer = change.ratio.point < 1
    if figure is Figure.TOKENS_PER_STEP:
        what = f"a step yields {size} % {'fewer' if fewer else 'more'} tokens"
    else:
        what = f"the speed-up {'fell' if fewer else 'grew'} by {size} %"
    return f"{what} ({span}), {old} before and {new} now"


def _size(ratio: float) -> float:
    return abs(ratio - 1)


def _gate(changes: Changes) -> Iterator[str]:
    if changes.threshold is None:
        return
    threshold = f"{changes.threshold:g}"
    for cell, figure, one in changes.judged:
        if one.below:
            yield (
                f"BELOW {threshold}: {_place(changes, cell)}: the new {figure.value} is "
                f"{one.ratio.point:.2f} times the old one."
            )
    yield from (f"NOT JUDGED: {gap}" for gap in changes.gaps)
    if not changes.failed:
        yield f"Nothing is surely below {threshold} of what it was."
    unsure = [(cell, figure, one) for cell, figure, one in changes.judged if not one.below]
    if unsure:
        yield "What would probably have been noticed, by how many times what it was:"
        yield from (
            f"  {_place(changes, cell)}: {_HEADS[figure]} under {one.seen_below:.2f}"
            + (" (blunt)" if _blunt(one, changes.threshold) else "")
            for cell, figure, one in unsure
        )
    if any(_blunt(one, changes.threshold) for _, _, one in unsure):
        yield (
            "Blunt: twice the loss that is allowed would probably pass. More rounds in both runs "
            "make it sharper."
        )


def _blunt(change: Change, threshold: float) -> bool:
    return change.seen_below is not None and change.seen_below < threshold**2


def _place(changes: Changes, cell: CellChange) -> str:
    several = len({one.load for one in changes.cells}) > 1
    at = f" at {loads.words([cell.load])}" if several and cell.load else ""
    return f"{cell.test_case}, {cell.variant}{at}"


def _notes(changes: Changes) -> Iterator[str]:
    for share in changes.shares:
        low, high = (f"{100 * bound:+.0f}" for bound in share.difference)
        yield (
            f"{share.what}: {100 * share.old:.0f} % before, {100 * share.new:.0f} % now "
            f"(difference {low} to {high} points)."
        )
    for name, old, new in changes.settings[:_MOST_SETTINGS]:
        yield f"They differ in {name}: {old} before, {new} now."
    if (more := len(changes.settings) - _MOST_SETTINGS) > 0:
        yield f"And in {wording.count(more, 'more setting')}."
    yield from changes.notes
