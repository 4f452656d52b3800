"""The table of measured windows, and what to measure next."""

from collections.abc import Iterator
from typing import Final

from spectap.analysis.summary import Summary, Window, Windows
from spectap.report import palette, phrases
from spectap.report.results import Results
from spectap.report.view import Columns, Row, Table, View, grouped

_LEGEND: Final = (
    '"yes": it is, or may be, within 2 % of the best that was measured. The others are surely '
    "slower than that."
)
_WIDEST: Final = 15  # the largest window that an experiment file takes
_FIXED: Final = "dflash"
"""A mode whose window is fixed: the block that the head was trained for."""


def table(summary: Summary) -> Table:
    colours = palette.of(summary.variants)

    def row(windows: Windows, window: Window) -> Row:
        labels = (windows.prompts, phrases.short_load(windows.load), window.variant)
        speed = phrases.speed(window.speed)
        steps = "" if window.tokens_per_step is None else f"{window.tokens_per_step:.2f}"
        # Qwen3-1.7B of "Qwen/Qwen3-1.7B @ revision"; the mode where there is no draft model
        draft = (window.draft or "").partition("@")[0].strip().rpartition("/")[2]
        values = (
            (draft or window.mode or "", "" if window.window is None else f"{window.window}"),
            (steps,),
            (speed.figure, speed.bounds),
            ("yes" if window.near else "",),
        )
        return Row(labels, values, colours[window.variant].role)

    return Table(
        "Measured windows" + (", in this rehearsal" if summary.rehearsal else ""),
        ("prompts", "load", "variant"),
        (
            Columns("", ("draft", "window")),
            Columns("tokens", ("a step",)),
            Columns("speed, 95 %", ("", "")),
            Columns("within 2 %", ("of the best",)),
        ),
        grouped(
            ((windows.prompts, windows.load), row(windows, window))
            for windows in summary.windows
            for window in windows.measured
        ),
        coloured=2,
    )


def sentences(summary: Summary) -> Iterator[str]:
    """Explains the marks, and says what to measure next, unless it was a rehearsal."""
    yield _LEGEND
    if not summary.rehearsal:
        yield from dict.fromkeys(
            sentence for windows in summary.windows for sentence in _measure_next(windows)
        )


def view(run: Results) -> View:
    return View(
        title=f"Windows of {phrases.heading(run.config, run.summary)}",
        tables=((table(run.summary), tuple(sentences(run.summary))),),
    )


def _measure_next(windows: Windows) -> Iterator[str]:
    best, where = windows.measured[0], f"on {windows.prompts} prompts at {windows.load}"
    speculating = [each for each in windows.measured if each.window is not None]
    if best.window is None:
        return
    alike = (
        each.window or 0
        for each in speculating
        if (each.mode, each.draft) == (best.mode, best.draft)
    )
    if best.window == max(alike) < _WIDEST and best.mode != _FIXED:
        yield f"Measure a window wider than {best.window}: it is the widest, and the best {where}."
    if any(each.near for each in windows.measured if each.window is None):
        yield f"Measure more rounds: {best.variant} may be no faster than the baseline {where}."
