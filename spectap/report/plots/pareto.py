"""Throughput against decoding speed: what all requests get together, and one after its prefill."""

from __future__ import annotations

from typing import Final

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from spectap import metrics, palette
from spectap.analysis.summary import Case, Cell, Summary
from spectap.report import phrases
from spectap.report.plots import canvas
from spectap.report.plots.speeds import kinds_of_load

_HEIGHT: Final = 330  # points
_OPEN: Final = (0, (4, 3))


def paint(summary: Summary, case: Case) -> Figure:
    """A curve for each variant and kind of load. Raises ``NothingToDraw``."""
    figure = canvas.figure(_HEIGHT)
    axes = figure.add_subplot()
    colours, drawn = palette.of(summary.variants), set()
    reach = [(0.0, 0.0)]
    for variant, colour in colours.items():
        for is_open in (False, True):
            cells = [case.cell(variant, load) for load in kinds_of_load(case, is_open)]
            points = [(cell, point) for cell in cells if (point := _point(cell))]
            if not points:
                continue
            drawn.add(variant)
            reach += [point for _, point in points]
            x, y = zip(*(point for _, point in points), strict=True)
            axes.plot(x, y, color=colour.light, linewidth=1.6, linestyle=_OPEN if is_open else "-")
            for cell, point in points:
                missed = cell.goodput is not None and not cell.goodput.met
                face = canvas.PAPER if missed else colour.light
                axes.plot(*point, colour.marker, color=colour.light, mfc=face, markersize=6)
                axes.annotate(
                    phrases.short_load(cell.load),
                    point,
                    (6, 5),
                    textcoords="offset points",
                    color=colour.light,
                    size=canvas.SMALL,
                )
    if not drawn:
        raise canvas.NothingToDraw("no load point has a time per output token of every request")
    axes.set_xlim(0, 1.12 * max(x for x, _ in reach))
    axes.set_ylim(0, 1.15 * max(y for _, y in reach))
    axes.set_xlabel("tokens a second of one request while it is decoded (1 / median TPOT)")
    axes.set_ylabel("tokens a second of all requests together")
    if summary.objectives and summary.objectives.tpot_p90_ms:
        _paint_limit(axes, summary.objectives.tpot_p90_ms)
    canvas.legend(figure, {name: colours[name] for name in colours if name in drawn})
    return figure


def _point(cell: Cell) -> tuple[float, float] | None:
    """Tokens a second of one request, and of all together."""
    sample = cell.measure(metrics.TIME_PER_OUTPUT_TOKEN)
    if sample is None or sample.p50 <= 0 or cell.tokens_per_second is None:
        return None
    return 1 / sample.p50, cell.tokens_per_second


def _paint_limit(axes: Axes, milliseconds: float) -> None:
    """The objective for the time per output token, which is about p90, not the median."""
    limit = 1000 / milliseconds
    right = max(axes.get_xlim()[1], 1.12 * limit)
    axes.set_xlim(right=right)
    axes.axvline(limit, color=canvas.MUTED, linewidth=1.2, linestyle=(0, (2, 2)))
    leftwards = limit > right / 2
    axes.annotate(
        f"objective: TPOT {milliseconds:g} ms",
        (limit, 1),
        (-4 if leftwards else 4, -2),
        xycoords=("data", "axes fraction"),
        textcoords="offset points",
        ha="right" if leftwards else "left",
        va="top",
        color=canvas.MUTED,
        size=canvas.SMALL,
    )
