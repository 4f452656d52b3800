"""The gain of each test case with its interval: of whole requests, and of decoding alone."""

from __future__ import annotations

from typing import Final

from matplotlib.figure import Figure

from spectap import palette, wording
from spectap.analysis.summary import Summary
from spectap.palette import Colour
from spectap.report.plots import canvas

_LINE: Final = 25  # points of height for a variant
_GAP: Final = 0.5  # lines between two test cases
_MARGINS: Final = 70  # points for the axis and the legend
_DECODING: Final = Colour("muted", canvas.MUTED, canvas.MUTED, "s")


def paint(summary: Summary) -> Figure:
    """A line for each variant of each test case. Raises ``NothingToDraw``."""
    cases = [
        (case.name, compared)
        for case in summary.cases
        if (compared := [pair for pair in case.compared if pair[1].speedup])
    ]
    if not cases:
        raise canvas.NothingToDraw("no test case has enough rounds of a variant and its baseline")
    colours = palette.of(summary.variants)
    lines = sum(len(compared) + _GAP for _, compared in cases)
    figure = canvas.figure(_MARGINS + _LINE * lines)
    axes = figure.add_subplot()
    middles, ratios, height = [], [], 0.0
    for _, compared in cases:
        middles.append(height + (len(compared) - 1) / 2)
        for cell, comparison in compared:
            colour = colours[cell.variant]
            if speed := comparison.speedup:
                canvas.paint_interval(axes, height - 0.14, speed, colour.light, colour.marker)
                ratios.append(speed)
            if decoding := comparison.by_time_per_output_token:
                canvas.paint_interval(axes, height + 0.2, decoding, canvas.MUTED, "s")
                ratios.append(decoding)
            height += 1
        height += _GAP
    canvas.scale_ratios(axes, ratios)
    axes.axvline(1, color=canvas.INK, linewidth=1)
    axes.set_ylim(height - 0.5, -0.75)
    axes.set_yticks(middles, [wording.short(name) for name, _ in cases], color=canvas.INK)
    axes.grid(visible=False, axis="y")
    axes.set_xlabel("times faster than the baseline: the whole request, and decoding alone")
    drawn = {cell.variant for _, compared in cases for cell, _ in compared}
    named = {name: colours[name] for name in colours if name in drawn}
    canvas.legend(figure, named | {"decoding": _DECODING})
    return figure
