"""Throughput against decoding speed: what all requests get together, and one after its prefill."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from spectap import metrics, palette
from spectap.analysis.summary import Case, Cell
from spectap.palette import Colour
from spectap.report import loads
from spectap.report.plots import canvas, per_case
from spectap.report.results import Results

_HEIGHT: Final = 330  # points


@dataclass(frozen=True)
class _Point:
    """One cell: tokens a second of one request, and of all together."""

    cell: Cell
    one: float
    together: float

    @property
    def label(self) -> str:
        return loads.short(self.cell.load)

    @property
    def hollow(self) -> bool:
        """Whether an objective is missed."""
        return self.cell.goodput is not None and not self.cell.goodput.met


@dataclass(frozen=True)
class _Curve:
    """One variant at the loads of one kind, lowest first."""

    colour: Colour
    open: bool
    points: tuple[_Point, ...]


def paint(run: Results, case: Case) -> Figure:
    """A curve for each variant and kind of load. Raises ``NothingToDraw``."""
    curves = [*_curves(run, case)]
    if not curves:
        raise canvas.NothingToDraw("no load point has a time per output token of every request")
    figure = canvas.figure(_HEIGHT)
    axes = figure.add_subplot()
    for curve in curves:
        _paint_curve(axes, curve)
    points = [point for curve in curves for point in curve.points]
    axes.set_xlim(0, 1.12 * max(point.one for point in points))
    axes.set_ylim(0, 1.15 * max(point.together for point in points))
    axes.set_xlabel("tokens a second of one request while it is decoded (1 / median TPOT)")
    axes.set_ylabel("tokens a second of all requests together")
    _paint_limit(run, axes)
    drawn = {point.cell.variant for point in points}
    colours = palette.of(run.summary.variants)
    per_case.legend(axes, {name: colours[name] for name in colours if name in drawn})
    labels = [
        (point.one, point.together, point.label, curve.colour.light)
        for curve in curves
        for point in curve.points
    ]
    canvas.label_points(figure, axes, labels)
    return figure


def _curves(run: Results, case: Case) -> Iterator[_Curve]:
    for variant, colour in palette.of(run.summary.variants).items():
        for open in (False, True):
            own = [
                cell
                for cell in case.cells
                if cell.variant == variant and cell.load and cell.load.open is open
            ]
            if points := tuple(_points(sorted(own, key=_load))):
                yield _Curve(colour, open, points)


def _load(cell: Cell) -> float:
    assert cell.load is not None
    return cell.load.amount


def _points(cells: Sequence[Cell]) -> Iterator[_Point]:
    for cell in cells:
        sample = cell.measure(metrics.TIME_PER_OUTPUT_TOKEN)
        if sample is not None and sample.p50 > 0 and cell.tokens_per_second is not None:
            yield _Point(cell, 1 / sample.p50, cell.tokens_per_second)


def _paint_curve(axes: Axes, curve: _Curve) -> None:
    colour = curve.colour.light
    axes.plot(
        [point.one for point in curve.points],
        [point.together for point in curve.points],
        color=colour,
        linewidth=1.6,
        linestyle=(0, (4, 3)) if curve.open else "-",
    )
    for point in curve.points:
        face = canvas.PAPER if point.hollow else colour
        axes.plot(
            point.one, point.together, curve.colour.marker, color=colour, mfc=face, markersize=6
        )


def _paint_limit(run: Results, axes: Axes) -> None:
    """The objective for the time per output token, which is about p90, not the median."""
    objectives = run.summary.objectives
    if objectives is None or objectives.tpot_p90_ms is None:
        return
    limit = 1000 / objectives.tpot_p90_ms
    right = max(axes.get_xlim()[1], 1.12 * limit)
    axes.set_xlim(right=right)
    axes.axvline(limit, color=canvas.MUTED, linewidth=1.2, linestyle=(0, (2, 2)))
    leftwards = limit > right / 2
    axes.annotate(
        f"objective: TPOT {objectives.tpot_p90_ms:g} ms",
        (limit, 1),
        (-4 if leftwards else 4, -2),
        xycoords=("data", "axes fraction"),
        textcoords="offset points",
        ha="right" if leftwards else "left",
        va="top",
        color=canvas.MUTED,
        size=canvas.SMALL,
    )
