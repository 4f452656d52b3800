"""Latency over the load against its objectives."""

from __future__ import annotations

from typing import Final

from matplotlib.figure import Figure

from spectap import metrics, palette
from spectap.analysis.summary import Case, Summary
from spectap.report import phrases
from spectap.report.plots import canvas
from spectap.report.plots.speeds import kinds_of_load

_METRICS: Final = (metrics.TTFT, metrics.TIME_PER_OUTPUT_TOKEN, metrics.END_TO_END_LATENCY)
_PANEL: Final = 130  # points of height
_MARGINS: Final = 80
_P90: Final = (0, (4, 3))


def paint(summary: Summary, case: Case) -> Figure:
    """A row of panels for each latency, a panel for each kind of load. Raises ``NothingToDraw``."""
    kinds = [kind for is_open in (False, True) if (kind := kinds_of_load(case, is_open))]
    drawn = [each for each in _METRICS if any(cell.measure(each) for cell in case.cells)]
    if not drawn or not kinds:
        raise canvas.NothingToDraw("no load point has a request that succeeded")
    limits = phrases.objective_limits(summary.objectives) if summary.objectives else {}
    colours = palette.of(summary.variants)
    figure = canvas.figure(_MARGINS + _PANEL * len(drawn))
    widths = [1 + len(kind) for kind in kinds]
    grid = figure.subplots(len(drawn), len(kinds), sharey="row", squeeze=False, width_ratios=widths)
    for row, metric in zip(grid, drawn, strict=True):
        row[0].set_ylabel(f"{metric.short}, ms")
        for axes, kind in zip(row, kinds, strict=True):
            for variant, colour in colours.items():
                samples = [
                    (load.amount, sample)
                    for load in kind
                    if (sample := case.cell(variant, load).measure(metric))
                ]
                loads = [amount for amount, _ in samples]
                middles = [1000 * sample.p50 for _, sample in samples]
                tails = [1000 * sample.p90 for _, sample in samples]
                axes.plot(loads, middles, color=colour.light, marker=colour.marker, markersize=5)
                axes.plot(loads, tails, "_", color=colour.light, linestyle=_P90, linewidth=1.2)
            canvas.scale_loads(axes, [load.amount for load in kind])
            axes.set_ylim(bottom=0)
            if limit := limits.get(metric.short):
                axes.axhline(limit, color=canvas.INK, linewidth=1.2, linestyle=":")
    for axes, kind in zip(grid[-1], kinds, strict=True):
        axes.set_xlabel(f"requests {phrases.load_unit(kind)}")
    styles = {"p50": "-", "p90": "--"} | ({"objective_for_p90": ":"} if limits else {})
    canvas.legend(figure, colours, **styles)
    return figure
