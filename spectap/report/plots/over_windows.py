"""The speed-up over the window, after the article's Figure 1."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from spectap.analysis.advice.advice import Advice, Prospect
from spectap.load_points import LoadPoint
from spectap.palette import Colour
from spectap.report.plots import by_line, canvas

_BAND: Final = 0.13  # opacity of the interval of predictions
_APART: Final = 0.12  # windows, between the intervals of two lines
_RING: Final = 12  # points, around what is recommended


def paint(advice: Advice, load: LoadPoint | None) -> Figure:
    """A panel for each class, a line for each draft. Raises ``NothingToDraw``."""
    shown = [one for one in advice.prospects if one.load == load]
    if not shown:
        raise canvas.NothingToDraw("nothing was measured at this load")
    colours = by_line.colours(advice)
    classes = dict.fromkeys(one.prompt_class for one in shown)
    figure, panels = by_line.panels(classes, "window", "speed-up of one request")
    for name, axes in panels:
        own = [one for one in shown if one.prompt_class == name]
        axes.axhline(1, color=colours[by_line.BASELINE].light, linewidth=1.4, linestyle="--")
        lines = [
            [one for one in own if one.line == line]
            for line in dict.fromkeys(one.line for one in own)
        ]
        for number, line in enumerate(lines):
            shift = _APART * (number - (len(lines) - 1) / 2)
            _paint_line(axes, line, colours[line[0].line], shift)
        _paint_best(axes, own, advice)
    highest = max(1.0, *(one.speedup.high for one in shown))
    figure.axes[0].set_ylim(0, 1.06 * highest)
    drawn = {by_line.BASELINE, *(one.line for one in shown)}
    by_line.legend(figure, {name: colours[name] for name in colours if name in drawn})
    return figure


def _paint_line(axes: Axes, line: Sequence[Prospect], colour: Colour, shift: float) -> None:
    line = sorted(line, key=lambda one: one.window)
    windows = [one.window for one in line]
    rates = [one.speedup for one in line]
    axes.plot(windows, [one.point for one in rates], color=colour.light, linewidth=1.4)
    lows, highs = ([getattr(one, end) for one in rates] for end in ("low", "high"))
    axes.fill_between(windows, lows, highs, color=colour.light, alpha=_BAND, linewidth=0)
    for window, found, one in zip(windows, rates, line, strict=True):
        if one.measured:
            axes.vlines(window + shift, found.low, found.high, color=colour.light, linewidth=2)
            axes.plot(window, found.point, colour.marker, color=colour.light, markersize=6)


def _paint_best(axes: Axes, shown: Sequence[Prospect], advice: Advice) -> None:
    """A ring around what is recommended for this class at this load."""
    for found in advice.recommendations:
        for one in shown:
            chosen = (found.choice.line, found.choice.window) == (one.line, one.window)
            if chosen and (found.prompt_class, found.load) == (one.prompt_class, one.load):
                point = (one.window, one.speedup.point)
                axes.plot(*point, "o", mfc="none", mec=canvas.INK, markersize=_RING)
