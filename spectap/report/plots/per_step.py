"""How many tokens the decoding steps of each variant yield."""

from __future__ import annotations

from typing import Final

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from spectap import palette, wording
from spectap.analysis.summary import Cell, Steps
from spectap.config import Structure
from spectap.palette import Colour
from spectap.report.plots import canvas
from spectap.report.results import Results

_PANEL: Final = 100  # points of height for a histogram
_MINIMUM: Final = 290


def paint(run: Results) -> Figure:
    """Histograms of the headline cases, one above the other. Raises ``NothingToDraw``.

    Baselines are left out: each of their steps yields one token.
    """
    shown = [
        (case.structure or case.name, cell, cell.steps)
        for case in run.summary.cases
        if case.headline
        for cell, _ in case.compared
        if cell.steps is not None
    ]
    if not shown:
        raise canvas.NothingToDraw("no headline case of them has a token count per chunk")
    colours = palette.of(run.summary.variants)
    figure = canvas.figure(height=max(_MINIMUM, _PANEL * len(shown)))
    panels = figure.subplots(len(shown), 1, sharex=True, sharey=True, squeeze=False)[:, 0]
    for axes, (of, cell, steps) in zip(panels, shown, strict=True):
        _paint_panel(axes, of, cell, steps, colours[cell.variant])
    panels[-1].set_xlabel("tokens in a step")
    panels[-1].xaxis.set_major_locator(MaxNLocator(integer=True, nbins=12))
    return figure


def _paint_panel(axes: Axes, of: str, cell: Cell, steps: Steps, colour: Colour) -> None:
    total = sum(amount for _, amount in steps.histogram)
    solid = of != Structure.OPEN_ENDED
    bars = axes.bar(
        [size for size, _ in steps.histogram],
        [100 * amount / total for _, amount in steps.histogram],
        width=0.72,
        color=colour.light if solid else "none",
        edgecolor=colour.light,
        linewidth=1.4,
        hatch=None if solid else "////",
    )
    axes.bar_label(bars, fmt="%.0f", padding=2, color=canvas.MUTED, size=canvas.SMALL)
    axes.margins(y=0.2)
    axes.set_ylabel("% of steps")
    axes.set_yticks([])
    axes.grid(visible=False)
    name = wording.short(cell.variant)
    title = f"{name}, {of}: {steps.mean:.2f} tokens a step on average"
    axes.set_title(title, loc="right", size=canvas.FONT_SIZE)
