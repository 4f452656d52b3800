"""A metric over time at one load point: a curve for each variant under each headline test case."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from spectap import palette, wording
from spectap.analysis.summary import Case
from spectap.config import Structure
from spectap.load_points import LoadPoint
from spectap.metrics import Metric
from spectap.names import WARM_UP
from spectap.palette import Colour
from spectap.record import Record
from spectap.report.plots import canvas
from spectap.report.results import Results

# More dots on a curve cannot be told apart, but make the page heavy.
_DOTS: Final = 250
_WAVES: Final = 60
_MARKED: Final = 15

_MARGIN: Final = 0.03  # of the time, before the first request and after the last
_LINE: Final = 18  # points of height for the name of a curve

# A piece of the curve's line, in front of its name.
_SOLID: Final = "\N{BOX DRAWINGS HEAVY HORIZONTAL}" * 2
_DASHED: Final = "\N{BOX DRAWINGS HEAVY TRIPLE DASH HORIZONTAL}" * 2

# In an open loop no requests are sent together; so many in a row make one point of a line.
_IN_A_ROW: Final = 8

Point = tuple[float, float]


@dataclass(frozen=True)
class _Curve:
    variant: str
    colour: Colour
    of: str
    """The structure of its test case, or the name where it has none."""
    dots: tuple[Point, ...]
    waves: tuple[Point, ...]

    @property
    def solid(self) -> bool:
        """Whether its line is a full one."""
        return self.of != Structure.OPEN_ENDED


def wave(point: LoadPoint) -> int:
    """How many requests make one point of a line."""
    return point.concurrency or _IN_A_ROW


def paint(run: Results, metric: Metric) -> Figure:
    """The headline cases' ``metric`` against the time of sending, at the run's one load point.

    Raises ``NothingToDraw``.
    """
    curves = list(_curves(run, metric))
    if not curves:
        raise canvas.NothingToDraw("no request of a headline case gave this measure")
    figure = canvas.figure(height=max(290, _LINE * len(curves)))
    axes = figure.add_subplot()
    last = max(x for curve in curves for x, _ in curve.dots)
    unit, seconds = _time_unit(last)
    top = 1.12 * max(y for curve in curves for _, y in curve.dots)
    for curve in curves:
        _paint_curve(axes, curve, seconds)
    axes.set_ylim(0, top)
    axes.set_xlim(-_MARGIN * last / seconds, (1 + _MARGIN) * last / seconds)
    axes.set_xlabel(f"{unit} since the first request")
    axes.set_ylabel(f"{metric.title.lower()}, {metric.printed}")
    axes.grid(visible=False, axis="x")
    _name_curves(axes, curves, gap=top / max(15, len(curves)))
    return figure


def _curves(run: Results, metric: Metric) -> Iterator[_Curve]:
    start = run.summary.started or 0.0
    colours = palette.of(run.summary.variants)
    for case in (case for case in run.summary.cases if case.headline):
        for variant, colour in colours.items():
            rounds = [
                [
                    (record.sent - start, value * metric.scale)
                    for record in _requests(run, case, variant)
                    if record.round == number
                    for value in metric.values(record)
                ]
                for number in range(1, run.config.load.rounds.at_most + 1)
            ]
            requests = [request for of_round in rounds for request in of_round]
            if requests:
                dots = requests[:: math.ceil(len(requests) / _DOTS)]
                waves = _waves(rounds, wave(run.summary.loads[0]))
                yield _Curve(
                    variant, colour, case.structure or case.name, tuple(dots), tuple(waves)
                )


def _requests(run: Results, case: Case, variant: str) -> list[Record]:
    counted = (record for record in run.records if record.round > WARM_UP and record.succeeded)
    own = [record for record in counted if (record.case, record.variant) == (case.name, variant)]
    return sorted(own, key=lambda record: record.sent)


def _waves(rounds: Sequence[Sequence[Point]], together: int) -> Iterator[Point]:
    # Requests sent together wait for each other in one batch, so their median is one observation.
    # In a long run several waves make one point.
    size = together * math.ceil(sum(map(len, rounds)) / (_WAVES * together))
    for requests in rounds:
        for start in range(0, len(requests), size):
            wave = requests[start : start + size]
            yield median(x for x, _ in wave), median(y for _, y in wave)


def _time_unit(length: float) -> tuple[str, float]:
    if length < 180:
        return "seconds", 1
    return ("minutes", 60) if length < 10_800 else ("hours", 3600)


def _paint_curve(axes: Axes, curve: _Curve, seconds: float) -> None:
    colour = curve.colour.light
    solid = curve.solid
    axes.scatter(
        [x / seconds for x, _ in curve.dots],
        [y for _, y in curve.dots],
        s=12,
        marker=curve.colour.marker,
        linewidths=0.8,
        facecolors=colour if solid else "none",
        edgecolors=colour,
        alpha=0.35,
    )
    axes.plot(
        [x / seconds for x, _ in curve.waves],
        [y for _, y in curve.waves],
        color=colour,
        linewidth=1.6,
        linestyle="-" if solid else (0, (4, 2)),
        marker=curve.colour.marker if len(curve.waves) <= _MARKED else "",
        markersize=6,
        markerfacecolor=colour if solid else canvas.PAPER,
    )


def _name_curves(axes: Axes, curves: Sequence[_Curve], gap: float) -> None:
    heights = canvas.apart([curve.waves[-1][1] for curve in curves], gap)
    for curve, height in zip(curves, heights, strict=True):
        axes.annotate(
            f"{_SOLID if curve.solid else _DASHED} {wording.short(curve.variant)}, {curve.of}",
            (1.02, height),
            xycoords=("axes fraction", "data"),
            va="center",
            color=curve.colour.light,
            annotation_clip=False,
        )
