"""Speed-ups prompt by prompt: how they spread, and by class."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from spectap import palette, wording
from spectap.analysis.estimates.intervals import Interval
from spectap.analysis.summary import Spread
from spectap.palette import Colour
from spectap.report.plots import canvas, per_case
from spectap.report.results import Results

_SPREAD: Final = 200  # points of height
_LINE: Final = 20  # points of height for a variant in a class
_MARGINS: Final = 70
_MARKED: Final = {10: "slowest tenth", 50: "half", 90: "fastest tenth"}  # percent of the prompts


def paint(run: Results, spreads: Sequence[Spread]) -> Figure:
    """One test case at one load point, each variant in its colour. Raises ``NothingToDraw``."""
    spreads = [spread for spread in spreads if spread.prompts]
    if not spreads:
        raise canvas.NothingToDraw("no prompt was answered by a variant and its baseline")
    colours = palette.of(run.summary.variants)
    classes = list(dict.fromkeys(one.name for spread in spreads for one in spread.classes))
    if len(classes) < 2:
        classes = []
    below = _LINE * (len(spreads) + 0.5) * len(classes)
    figure = canvas.figure(_MARGINS + _SPREAD + below)
    panels = figure.subplots(
        2 if classes else 1,
        1,
        sharex=True,
        squeeze=False,
        height_ratios=[_SPREAD, below] if classes else None,
    )[:, 0]
    _paint_spread(panels[0], spreads, colours)
    if classes:
        _paint_classes(panels[-1], spreads, classes, colours)
    ends = [Interval(speed, speed, speed) for spread in spreads for *_, speed in spread.prompts]
    bars = [one.speed for spread in spreads for one in spread.classes if one.speed]
    per_case.scale_ratios(panels[0], [*ends, *bars], along="x")
    panels[-1].set_xlabel("times faster than the baseline")
    drawn = {spread.variant for spread in spreads}
    per_case.legend(panels[0], {name: colours[name] for name in colours if name in drawn})
    return figure


def _paint_spread(axes: Axes, spreads: Sequence[Spread], colours: dict[str, Colour]) -> None:
    axes.axvline(1, color=canvas.INK, linewidth=1)
    for share in _MARKED:
        axes.axhline(share, color=canvas.MUTED, linewidth=1, linestyle=(0, (4, 3)))
    for spread in spreads:
        colour = colours[spread.variant]
        speeds = [speed for *_, speed in spread.prompts]
        ranks = [100 * (rank + 0.5) / len(speeds) for rank in range(len(speeds))]
        _dots(axes, speeds, ranks, colour, size=20, alpha=0.6)
    axes.set_ylim(0, 100)
    axes.set_yticks([0, *_MARKED, 100], ["", *_MARKED.values(), ""])
    axes.grid(visible=False, axis="y")
    axes.set_ylabel("prompts, slowest first")


def _dots(
    axes: Axes, x: list[float], y: list[float], colour: Colour, *, size: float, alpha: float
) -> None:
    axes.scatter(x, y, size, colour.light, marker=colour.marker, alpha=alpha, linewidths=0)


def _paint_classes(
    axes: Axes, spreads: Sequence[Spread], classes: Sequence[str], colours: dict[str, Colour]
) -> None:
    axes.axvline(1, color=canvas.INK, linewidth=1)
    step = len(spreads) + 0.5
    for number, name in enumerate(classes):
        for line, spread in enumerate(spreads):
            height, colour = number * step + line, colours[spread.variant]
            speeds = [speed for _, of, speed in spread.prompts if of == name]
            heights = [height] * len(speeds)
            _dots(axes, speeds, heights, colour, size=12, alpha=0.35)
            found = next((one for one in spread.classes if one.name == name), None)
            if found and found.speed:
                per_case.paint_interval(axes, height, found.speed, colour.light, colour.marker)
    sizes = {one.name: one.prompts for spread in spreads for one in spread.classes}
    middles = [number * step + (len(spreads) - 1) / 2 for number in range(len(classes))]
    labels = [f"{wording.short(name) or wording.MISSING} ({sizes[name]})" for name in classes]
    axes.set_yticks(middles, labels, color=canvas.INK)
    axes.set_ylim(len(classes) * step - 0.75, -0.75)
    axes.grid(visible=False, axis="y")
