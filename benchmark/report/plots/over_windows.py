"""Tokens a second over the window: the article's Figure 1."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchmark.analysis.advice.advice import Advice, Prospect
from benchmark.analysis.estimates.intervals import Interval
from benchmark.load_points import LoadPoint
from benchmark.palette import Colour
from benchmark.report.plots import by_line, canvas

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
    figure, panels = by_line.panels(classes, "window", "tokens/s of one request")
    for name, axes in panels:
        own = [one for one in shown if one.prompt_class == name]
        _paint_baselines(axes, own, colours[by_line.BASELINE])
        lines = [
            [one for one in own if one.line == line]
            for line in dict.fromkeys(one.line for one in own)
        ]
        for number, line in enumerate(lines):
            shift = _APART * (number - (len(lines) - 1) / 2)
            _paint_line(axes, line, colours[line[0].line], shift)
        _paint_best(axes, own, advice)
    highest = max(_rates(one, one.measured or one.predicted).high for one in shown)
    figure.axes[0].set_ylim(0, 1.06 * highest)
    drawn = {by_line.BASELINE, *(one.line for one in shown)}
    by_line.legend(figure, {name: colours[name] for name in colours if name in drawn})
    return figure


def rate(found: Prospect) -> float:
    """Tokens a second after the first: the reciprocal of the time per output token."""
    return found.tokens_per_step / found.step_seconds


def _rates(found: Prospect, speedup: Interval | None) -> Interval:
    """The same with the bounds that its speed-up has."""
    assert speedup is not None
    return speedup.scaled(rate(found) / speedup.point)


def _paint_baselines(axes: Axes, shown: Sequence[Prospect], colour: Colour) -> None:
    """The rate without speculation: one for each batch, so for each line at most."""
    rates = {one.line: rate(one) / one.speedup.point for one in shown}
    for height in dict.fromkeys(round(one, 3) for one in rates.values()):
        axes.axhline(height, color=colour.light, linewidth=1.4, linestyle="--")


def _paint_line(axes: Axes, line: Sequence[Prospect], colour: Colour, shift: float) -> None:
    line = sorted(line, key=lambda one: one.window)
    windows = [one.window for one in line]
    rates = [_rates(one, one.speedup) for one in line]
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
                point = (one.window, rate(one))
                axes.plot(*point, "o", mfc="none", mec=canvas.INK, markersize=_RING)
