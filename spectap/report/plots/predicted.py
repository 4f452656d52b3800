"""Speed-ups as predicted from the other windows, against those that were measured."""

from __future__ import annotations

from typing import Final

from matplotlib.figure import Figure

from spectap.analysis.advice.advice import Advice, Prospect
from spectap.analysis.estimates.intervals import Interval
from spectap.report.plots import by_line, canvas, per_case

_HEIGHT: Final = 340  # points
_FAINT: Final = 0.45  # opacity of an interval


def paint(advice: Advice) -> Figure:
    """A point for each measured window of each line, class and load. Raises ``NothingToDraw``."""
    shown = [(one, *pair) for one in advice.prospects if (pair := both(one))]
    if not shown:
        raise canvas.NothingToDraw("no window was predicted from others")
    colours = by_line.colours(advice)
    figure = canvas.figure(_HEIGHT)
    axes = figure.add_subplot()
    every = [interval for _, *pair in shown for interval in pair]
    per_case.scale_ratios(axes, every, along="x")
    per_case.scale_ratios(axes, every, along="y")
    axes.axline((1, 1), (2, 2), color=canvas.INK, linewidth=1)
    for one, predicted, measured in shown:
        colour = colours[one.line]
        x, y = measured.point, predicted.point
        axes.plot([measured.low, measured.high], [y, y], color=colour.light, alpha=_FAINT)
        axes.plot([x, x], [predicted.low, predicted.high], color=colour.light, alpha=_FAINT)
        axes.plot(x, y, colour.marker, color=colour.light, markersize=5)
    canvas.label_points(
        figure,
        axes,
        [
            (measured.point, predicted.point, str(one.window), colours[one.line].light)
            for one, predicted, measured in shown
        ],
    )
    axes.set_xlabel("speed-up as measured")
    axes.set_ylabel("predicted from the other windows")
    drawn = {one.line for one, *_ in shown}
    by_line.legend(figure, {name: colours[name] for name in colours if name in drawn})
    return figure


def both(of: Prospect) -> tuple[Interval, Interval] | None:
    """Predicted and measured, where it was both."""
    if of.predicted is None or of.measured is None:
        return None
    return of.predicted, of.measured
