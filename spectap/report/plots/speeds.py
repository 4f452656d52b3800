"""Ratios to the baseline over the load: request speed and tokens together, and decoding speed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from spectap import palette
from spectap.analysis.estimates.intervals import Interval
from spectap.analysis.summary import Case, Cell, Comparison, Crossover, Ladder, Summary
from spectap.load_points import LoadPoint
from spectap.palette import Colour
from spectap.report import phrases
from spectap.report.plots import canvas

_PANEL: Final = 175  # points of height
_MARGINS: Final = 70
_SHIFT: Final = 0.03  # of the axis, between variants at the same load
_BAND: Final = 0.13  # opacity of a crossover's interval


@dataclass(frozen=True)
class Ratio:
    """One row of panels."""

    label: str
    interval: Callable[[Comparison], Interval | None]
    crossover: Callable[[Ladder], Crossover | None] = lambda _: None


SPEED: Final = Ratio(
    "speed of one request", lambda comparison: comparison.speedup, lambda ladder: ladder.speed
)
TOGETHER: Final = Ratio(
    "tokens/s of all together",
    lambda comparison: comparison.cost.interval if comparison.cost else None,
    lambda ladder: ladder.cost,
)
DECODING: Final = Ratio("speed of decoding", lambda comparison: comparison.by_time_per_output_token)


@dataclass(frozen=True)
class _Curve:
    """One variant at the loads of one kind, lowest first."""

    colour: Colour
    points: tuple[tuple[Cell, Interval], ...]
    crossover: Crossover | None


def paint(summary: Summary, case: Case, ratios: Sequence[Ratio]) -> Figure:
    """A row of panels for each ratio, a panel for each kind of load. Raises ``NothingToDraw``."""
    kinds = [kind for is_open in (False, True) if (kind := kinds_of_load(case, is_open))]
    rows = [(ratio, [_curves(summary, case, ratio, kind) for kind in kinds]) for ratio in ratios]
    rows = [(ratio, panels) for ratio, panels in rows if any(panels)]
    drawn = [number for number in range(len(kinds)) if any(panels[number] for _, panels in rows)]
    if not rows:
        raise canvas.NothingToDraw("no load point has enough rounds of a variant and its baseline")
    kinds = [kinds[number] for number in drawn]
    figure = canvas.figure(_MARGINS + _PANEL * len(rows))
    widths = [1 + len(kind) for kind in kinds]
    grid = figure.subplots(len(rows), len(kinds), sharey="row", squeeze=False, width_ratios=widths)
    for row, (ratio, panels) in zip(grid, rows, strict=True):
        row[0].set_ylabel(ratio.label)
        curves = [panels[number] for number in drawn]
        intervals = [interval for of in curves for curve in of for _, interval in curve.points]
        canvas.scale_ratios(row[0], intervals, along="y")
        for axes, of, kind in zip(row, curves, kinds, strict=True):
            axes.set_visible(bool(of))
            _paint_panel(axes, of)
            canvas.scale_loads(axes, [load.amount for load in kind])
    for column, kind in zip(zip(*grid, strict=True), kinds, strict=True):
        *above, last = (axes for axes in column if axes.get_visible())
        last.set_xlabel(f"requests {phrases.load_unit(kind)}")
        for axes in above:
            axes.tick_params(labelbottom=False)
    named = {cell.variant for cell, _ in case.compared}
    colours = palette.of(summary.variants)
    canvas.legend(figure, {name: colours[name] for name in colours if name in named})
    return figure


def kinds_of_load(case: Case, is_open: bool) -> list[LoadPoint]:
    """The load points of one kind, lowest first."""
    loads = (load for load in case.loads if load and load.open is is_open)
    return sorted(loads, key=lambda load: load.amount)


def _curves(summary: Summary, case: Case, ratio: Ratio, kind: Sequence[LoadPoint]) -> list[_Curve]:
    colours = palette.of(summary.variants)
    ladders = {ladder.variant: ladder for ladder in case.ladders if ladder.open is kind[0].open}
    curves = []
    for variant in summary.variants:
        points = tuple(
            (cell, interval)
            for load in kind
            if (cell := case.cell(variant, load)).comparison
            and (interval := ratio.interval(cell.comparison))
        )
        if points:
            crossover = ratio.crossover(ladders[variant]) if variant in ladders else None
            curves.append(_Curve(colours[variant], points, crossover))
    return curves


def _paint_panel(axes: Axes, curves: Sequence[_Curve]) -> None:
    axes.axhline(1, color=canvas.INK, linewidth=1)
    for number, curve in enumerate(curves):
        # Intervals at one load stand side by side.
        shift = 1 + _SHIFT * (number - (len(curves) - 1) / 2)
        at = [shift * cell.load.amount for cell, _ in curve.points if cell.load]
        hollow = [bool(phrases.load_mark(cell)) for cell, _ in curve.points]
        intervals = [interval for _, interval in curve.points]
        canvas.paint_curve(axes, at, intervals, curve.colour, hollow)
        if curve.crossover and curve.crossover.found:
            _paint_crossover(axes, curve.crossover, curve.colour, below=number % 2 == 0)


def _paint_crossover(axes: Axes, crossover: Crossover, colour: Colour, *, below: bool) -> None:
    assert crossover.better_up_to is not None
    assert crossover.worse_from is not None
    ends = crossover.better_up_to, crossover.worse_from
    axes.axvspan(*ends, color=colour.light, alpha=_BAND, linewidth=0)
    if crossover.point is None:
        return
    axes.plot(crossover.point, 1, "X", color=colour.light, markersize=8, mec=canvas.PAPER)
    axes.annotate(
        f"{crossover.point:.2g}",
        (crossover.point, 1),
        (0, -8 if below else 8),
        textcoords="offset points",
        ha="center",
        va="top" if below else "bottom",
        color=colour.light,
        weight="bold",
    )
