"""How many tokens the decoding steps of SD yield."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from benchmark.analysis.summary import Steps
from benchmark.report.plots import canvas
from benchmark.report.results import Results


def paint(run: Results) -> Figure:
    """Histograms of the headline cases, one above the other. Raises ``NothingToDraw``."""
    shown = [
        (case.structure, case.speculative.steps)
        for case in run.summary.cases
        if case.headline and case.speculative.steps is not None
    ]
    if not shown:
        raise canvas.NothingToDraw("no headline case of SD has a token count per chunk")
    figure = canvas.figure(height=290)
    panels = figure.subplots(len(shown), 1, sharex=True, sharey=True, squeeze=False)[:, 0]
    for axes, (structure, steps) in zip(panels, shown, strict=True):
        _paint_panel(axes, structure, steps)
    panels[-1].set_xlabel("tokens in a step")
    panels[-1].xaxis.set_major_locator(MaxNLocator(integer=True, nbins=12))
    return figure


def _paint_panel(axes: Axes, structure: str, steps: Steps) -> None:
    total = sum(amount for _, amount in steps.histogram)
    solid = structure == "structured"
    bars = axes.bar(
        [size for size, _ in steps.histogram],
        [100 * amount / total for _, amount in steps.histogram],
        width=0.72,
        color=canvas.SD if solid else "none",
        edgecolor=canvas.SD,
        linewidth=1.4,
        hatch=None if solid else "////",
    )
    axes.bar_label(bars, fmt="%.0f", padding=2, color=canvas.MUTED, size=canvas.SMALL)
    axes.margins(y=0.2)
    axes.set_ylabel("% of steps")
    axes.set_yticks([])
    axes.grid(visible=False)
    title = f"{structure}: {steps.mean:.2f} tokens a step on average"
    axes.set_title(title, loc="right", size=canvas.FONT_SIZE)
