"""How often the draft at each position is accepted."""

from __future__ import annotations

from typing import Final

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from spectap.analysis.advice.advice import Acceptance, Advice
from spectap.palette import Colour
from spectap.report.plots import by_line, canvas

_APART: Final = 0.12  # positions, between the intervals of two lines


def paint(advice: Advice) -> Figure:
    """A panel for each class, a line for each draft. Raises ``NothingToDraw``."""
    shown = [one for one in advice.acceptances if one.positions]
    if not shown:
        raise canvas.NothingToDraw("no step tells how many drafts were accepted")
    colours = by_line.colours(advice)
    classes = dict.fromkeys(one.prompt_class for one in shown)
    figure, panels = by_line.panels(classes, "position of the draft", "% accepted where reached")
    for name, axes in panels:
        own = [one for one in shown if one.prompt_class == name]
        for number, one in enumerate(own):
            shift = _APART * (number - (len(own) - 1) / 2)
            _paint_line(axes, one, colours[one.line], shift)
    figure.axes[0].set_ylim(0, 103)
    drawn = {one.line for one in shown}
    by_line.legend(figure, {name: colours[name] for name in colours if name in drawn})
    return figure


def _paint_line(axes: Axes, found: Acceptance, colour: Colour, shift: float) -> None:
    # What too few steps reached says nothing, unless there is nothing else.
    shown = [one for one in found.positions if one.interval] or found.positions
    positions = [one.number + shift for one in shown]
    accepted = [100 * one.accepted for one in shown]
    axes.plot(positions, accepted, color=colour.light, linewidth=1.4)
    for at, one in zip(positions, shown, strict=True):
        face = colour.light if one.interval else canvas.PAPER
        height = 100 * one.accepted
        axes.plot(at, height, colour.marker, color=colour.light, mfc=face, markersize=5)
        if one.interval:
            low, high = (100 * end for end in one.interval)
            axes.vlines(at, low, high, color=colour.light, linewidth=2)
