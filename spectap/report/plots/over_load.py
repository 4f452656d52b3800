"""Speed-ups over the load, and the load at which they end."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from spectap import palette
from spectap.analysis.estimates.intervals import Interval
from spectap.analysis.summary import Case, Cell, Claim, Comparison, Crossover, Ladder
from spectap.load_points import LoadPoint
from spectap.palette import Colour
from spectap.report import loads
from spectap.report.plots import canvas, per_case
from spectap.report.results import Results

_PANEL: Final = 175  # points of height
_MARGINS: Final = 70
_APART: Final = 0.03  # of the axis, between variants at the same load
_BAND: Final = 0.13  # opacity of a crossover's interval


@dataclass(frozen=True)
class _Question:
    """One row of panels."""

    label: str
    claim: Callable[[Comparison], Claim | None]
    crossover: Callable[[Ladder], Crossover]


_QUESTIONS: Final = (
    _Question("speed of one request", lambda found: found.speed, lambda ladder: ladder.speed),
    _Question("tokens/s of all together", lambda found: found.cost, lambda ladder: ladder.cost),
)


@dataclass(frozen=True)
class _Curve:
    """The ratios of one variant to its baseline at the loads of one kind, lowest first."""

    colour: Colour
    points: tuple[tuple[Cell, Interval], ...]
    crossover: Crossover | None


def paint(run: Results, case: Case) -> Figure:
    """A row of panels for each question, a panel for each kind of load.

    Raises ``NothingToDraw``.
    """
    kinds = [
        kind
        for open in (False, True)
        if (kind := _points(case, open))
        and any(found.speed or found.cost for cell, found in case.compared if cell.load in kind)
    ]
    rows = [
        (question, [[*_curves(run, case, question, kind)] for kind in kinds])
        for question in _QUESTIONS
    ]
    rows = [(question, panels) for question, panels in rows if any(panels)]
    if not rows:
        raise canvas.NothingToDraw("no load point has enough rounds of a variant and its baseline")
    figure = canvas.figure(_MARGINS + _PANEL * len(rows))
    widths = [1 + len(kind) for kind in kinds]
    grid = figure.subplots(len(rows), len(kinds), sharey="row", squeeze=False, width_ratios=widths)
    for axes_of_row, (question, panels) in zip(grid, rows, strict=True):
        axes_of_row[0].set_ylabel(question.label)
        shown = [ratio for curves in panels for curve in curves for _, ratio in curve.points]
        per_case.scale_ratios(axes_of_row[0], shown, along="y")
        for axes, curves, kind in zip(axes_of_row, panels, kinds, strict=True):
            axes.set_visible(bool(curves))
            _paint_panel(axes, curves)
            _scale_loads(axes, kind)
    for column, kind in zip(zip(*grid, strict=True), kinds, strict=True):
        *above, last = (axes for axes in column if axes.get_visible())
        last.set_xlabel(f"requests {loads.unit(kind)}")
        for axes in above:
            axes.tick_params(labelbottom=False)
    drawn = {cell.variant for cell, _ in case.compared}
    colours = palette.of(run.summary.variants)
    widest = grid[0][widths.index(max(widths))]
    per_case.legend(widest, {name: colours[name] for name in colours if name in drawn})
    return figure


def _points(case: Case, open: bool) -> list[LoadPoint]:
    """The load points of one kind, lowest first."""
    return sorted(
        (one for one in case.loads if one and one.open is open), key=lambda point: point.amount
    )


def _curves(
    run: Results, case: Case, question: _Question, kind: Sequence[LoadPoint]
) -> Iterator[_Curve]:
    colours = palette.of(run.summary.variants)
    ladders = {one.variant: one for one in case.ladders if one.open is kind[0].open}
    for variant in run.summary.variants:
        cells = [case.cell(variant, point) for point in kind]
        found = [(cell, question.claim(cell.comparison)) for cell in cells if cell.comparison]
        points = tuple((cell, claim.interval) for cell, claim in found if claim)
        if points:
            crossover = question.crossover(ladders[variant]) if variant in ladders else None
            yield _Curve(colours[variant], points, crossover)


def _paint_panel(axes: Axes, curves: Sequence[_Curve]) -> None:
    axes.set_xscale("log", base=2)
    axes.axhline(1, color=canvas.INK, linewidth=1)
    axes.grid(visible=False, axis="x")
    for number, curve in enumerate(curves):
        # Intervals at one load stand side by side.
        shift = 1 + _APART * (number - (len(curves) - 1) / 2)
        _paint_curve(axes, curve, shift)
        if curve.crossover and curve.crossover.found:
            _paint_crossover(axes, curve.crossover, curve.colour, below=number % 2 == 0)


def _paint_curve(axes: Axes, curve: _Curve, shift: float) -> None:
    colour = curve.colour.light
    at = [shift * cell.load.amount for cell, _ in curve.points if cell.load]
    axes.plot(at, [ratio.point for _, ratio in curve.points], color=colour, linewidth=1.6)
    axes.vlines(
        at,
        [ratio.low for _, ratio in curve.points],
        [ratio.high for _, ratio in curve.points],
        color=colour,
        linewidth=2,
    )
    for x, (cell, ratio) in zip(at, curve.points, strict=True):
        face = canvas.PAPER if loads.mark(cell) else colour
        axes.plot(x, ratio.point, curve.colour.marker, color=colour, mfc=face, markersize=6)


def _paint_crossover(axes: Axes, found: Crossover, colour: Colour, *, below: bool) -> None:
    assert found.better_up_to is not None
    assert found.worse_from is not None
    axes.axvspan(found.better_up_to, found.worse_from, color=colour.light, alpha=_BAND, linewidth=0)
    if found.point is None:
        return
    axes.plot(found.point, 1, "X", color=colour.light, markersize=8, mec=canvas.PAPER)
    axes.annotate(
        f"{found.point:.2g}",
        (found.point, 1),
        (0, -8 if below else 8),
        textcoords="offset points",
        ha="center",
        va="top" if below else "bottom",
        color=colour.light,
        weight="bold",
    )


def _scale_loads(axes: Axes, kind: Sequence[LoadPoint]) -> None:
    values = [point.amount for point in kind]
    axes.xaxis.set_major_locator(FixedLocator(values))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.set_xlim(values[0] / 1.3, values[-1] * 1.3)
