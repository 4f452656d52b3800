"""Drafts accepted by position, and the speed-up over the window after the article's Figure 1."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from spectap import wording
from spectap.analysis.advice.advice import Acceptance, Advice, Position, Prospect
from spectap.analysis.estimates.intervals import Interval
from spectap.load_points import LoadPoint
from spectap.palette import Colour
from spectap.report.advice import colours
from spectap.report.plots import canvas

_PANEL: Final = 190  # points of height
_MARGINS: Final = 60
_SHIFT: Final = 0.12  # windows or positions, between the intervals of two lines
_BAND: Final = 0.13  # opacity of the interval of predictions
_RING: Final = 12  # points, around what is recommended


def first_load(advice: Advice) -> LoadPoint | None:
    """The load point whose windows are drawn; the tables have all."""
    return advice.prospects[0].load if advice.prospects else None


def paint(advice: Advice) -> Figure:
    """A row for each class, a line for each draft. Raises ``NothingToDraw``."""
    acceptances = [each for each in advice.acceptances if each.positions]
    prospects = [each for each in advice.prospects if each.load == first_load(advice)]
    windows = len({each.window for each in prospects}) > 1
    if not acceptances:
        raise canvas.NothingToDraw("no step tells how many drafts were accepted")
    classes = [*dict.fromkeys(each.prompt_class for each in acceptances)]
    named = colours(advice)
    figure = canvas.figure(_MARGINS + _PANEL * len(classes))
    columns = 2 if windows else 1
    grid = figure.subplots(len(classes), columns, sharex="col", sharey="col", squeeze=False)
    for row, name in zip(grid, classes, strict=True):
        row[0].set_title(wording.short(name), loc="left", size=canvas.FONT_SIZE)
        _paint_acceptances(
            row[0], [each for each in acceptances if each.prompt_class == name], named
        )
        if windows:
            _paint_windows(row[1], [each for each in prospects if each.prompt_class == name], named)
            _paint_best(row[1], name, prospects, advice)
        for axes in row:
            axes.grid(visible=False, axis="x")
            axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=8))
    grid[0][0].set_ylim(0, 103)
    grid[-1][0].set_xlabel("position of the draft")
    if windows:
        grid[0][1].set_ylim(0, 1.06 * max(1.0, *(each.speedup.high for each in prospects)))
        grid[-1][1].set_xlabel("window")
    drawn = {each.line for each in acceptances} | {each.line for each in prospects}
    canvas.legend(figure, {name: named[name] for name in named if name in drawn})
    return figure


def _paint_acceptances(
    axes: Axes, acceptances: Sequence[Acceptance], named: dict[str, Colour]
) -> None:
    axes.set_ylabel("% accepted where reached")
    for number, each in enumerate(acceptances):
        # What too few steps reached says nothing, unless there is nothing else.
        positions = [position for position in each.positions if position.interval] or each.positions
        shift = _SHIFT * (number - (len(acceptances) - 1) / 2)
        intervals = [Interval(*(100 * end for end in _ends(position))) for position in positions]
        hollow = [position.interval is None for position in positions]
        at = [position.number + shift for position in positions]
        canvas.paint_curve(axes, at, intervals, named[each.line], hollow)


def _ends(position: Position) -> tuple[float, float, float]:
    """The share and the bounds of its interval, which has no width where it is not known."""
    low, high = position.interval or (position.accepted, position.accepted)
    return position.accepted, low, high


def _paint_windows(axes: Axes, prospects: Sequence[Prospect], named: dict[str, Colour]) -> None:
    axes.set_ylabel("speed-up of one request")
    axes.axhline(1, color=canvas.INK, linewidth=1)
    lines = [*dict.fromkeys(each.line for each in prospects)]
    for number, line in enumerate(lines):
        colour, shift = named[line], _SHIFT * (number - (len(lines) - 1) / 2)
        of_line = sorted((p for p in prospects if p.line == line), key=lambda p: p.window)
        windows = [each.window for each in of_line]
        speeds = [each.speedup for each in of_line]
        axes.plot(windows, [speed.point for speed in speeds], color=colour.light, linewidth=1.4)
        lows, highs = ([getattr(speed, end) for speed in speeds] for end in ("low", "high"))
        axes.fill_between(windows, lows, highs, color=colour.light, alpha=_BAND, linewidth=0)
        for each in of_line:
            if each.measured:
                ends = each.speedup.low, each.speedup.high
                axes.vlines(each.window + shift, *ends, color=colour.light, linewidth=2)
                canvas.paint_point(axes, each.window, each.speedup.point, colour)


def _paint_best(axes: Axes, name: str, prospects: Sequence[Prospect], advice: Advice) -> None:
    """A ring around what is recommended for this class at this load."""
    for best in advice.recommendations:
        for each in prospects:
            chosen = (best.choice.line, best.choice.window) == (each.line, each.window)
            here = (best.prompt_class, best.load) == (each.prompt_class, each.load)
            if chosen and here and each.prompt_class == name:
                point = (each.window, each.speedup.point)
                axes.plot(*point, "o", mfc="none", mec=canvas.INK, markersize=_RING)
