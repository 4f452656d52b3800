"""A measure over time: four curves, Base and SD under a structured and an open-ended prompt."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchmark.analysis.summary import Case
from benchmark.names import VARIANTS
from benchmark.record import Record
from benchmark.report.plots import canvas
from benchmark.report.results import Results

# More than this on a curve is no longer seen, but makes the page heavy.
_DOTS: Final = 250
_WAVES: Final = 60

# Of the two kinds of lines, before a curve's name.
_SAMPLE: Final = {
    "structured": "\N{BOX DRAWINGS HEAVY HORIZONTAL}" * 2,
    "open-ended": "\N{BOX DRAWINGS HEAVY TRIPLE DASH HORIZONTAL}" * 2,
}

Point = tuple[float, float]


@dataclass(frozen=True)
class _Curve:
    variant: str
    structure: str
    dots: tuple[Point, ...]
    waves: tuple[Point, ...]


def paint(
    run: Results, measure: Callable[[Record], float | None], scale: float, label: str
) -> Figure:
    """The headline cases' ``measure`` (seconds, times ``scale``) against the time of sending.

    Raises ``NothingToDraw``.
    """
    curves = list(_curves(run, measure, scale))
    if not curves:
        raise canvas.NothingToDraw("no request of a headline case gave this measure")
    figure = canvas.figure(height=290)
    axes = figure.add_subplot()
    unit, seconds = _time_unit(max(x for curve in curves for x, _ in curve.dots))
    top = 1.12 * max(y for curve in curves for _, y in curve.dots)
    for curve in curves:
        _paint_curve(axes, curve, seconds)
    axes.set_ylim(0, top)
    axes.set_xlim(left=0)
    axes.margins(x=0.01)
    axes.set_xlabel(f"{unit} since the first request")
    axes.set_ylabel(label)
    axes.grid(visible=False, axis="x")
    _name_curves(axes, curves, gap=top / 15)
    return figure


def _curves(
    run: Results, measure: Callable[[Record], float | None], scale: float
) -> Iterator[_Curve]:
    start = run.summary.started or 0.0
    for case in (case for case in run.summary.cases if case.headline):
        for variant in VARIANTS:
            rounds = [
                [
                    (record.sent - start, value * scale)
                    for record in _requests(run, case, variant)
                    if record.round == number and (value := measure(record)) is not None
                ]
                for number in range(1, run.config.load.rounds + 1)
            ]
            requests = [request for of_round in rounds for request in of_round]
            if requests:
                dots = requests[:: math.ceil(len(requests) / _DOTS)]
                waves = _waves(rounds, run.config.load.concurrency)
                yield _Curve(variant, case.structure, tuple(dots), tuple(waves))


def _requests(run: Results, case: Case, variant: str) -> list[Record]:
    counted = (record for record in run.records if record.round > 0 and record.succeeded)
    own = [record for record in counted if (record.case, record.variant) == (case.name, variant)]
    return sorted(own, key=lambda record: record.sent)


def _waves(rounds: Sequence[Sequence[Point]], concurrency: int) -> Iterator[Point]:
    # Requests sent together wait for each other in one batch: their median is one observation.
    # A long run takes several waves together.
    size = concurrency * math.ceil(sum(map(len, rounds)) / (_WAVES * concurrency))
    for index, requests in enumerate(filter(None, rounds)):
        if index:
            yield math.nan, math.nan  # between two rounds nothing was measured: no line
        for start in range(0, len(requests), size):
            wave = requests[start : start + size]
            yield median(x for x, _ in wave), median(y for _, y in wave)


def _time_unit(length: float) -> tuple[str, float]:
    if length < 180:
        return "seconds", 1
    return ("minutes", 60) if length < 10_800 else ("hours", 3600)


def _paint_curve(axes: Axes, curve: _Curve, seconds: float) -> None:
    colour = canvas.COLOUR_OF[curve.variant]
    solid = curve.structure == "structured"
    axes.scatter(
        [x / seconds for x, _ in curve.dots],
        [y for _, y in curve.dots],
        s=12,
        linewidths=0.8,
        facecolors=colour if solid else "none",
        edgecolors=colour,
        alpha=0.45,
    )
    axes.plot(
        [x / seconds for x, _ in curve.waves],
        [y for _, y in curve.waves],
        color=colour,
        linewidth=2,
        linestyle="-" if solid else (0, (4, 2)),
    )


def _name_curves(axes: Axes, curves: Sequence[_Curve], gap: float) -> None:
    heights = canvas.apart([curve.waves[-1][1] for curve in curves], gap)
    for curve, height in zip(curves, heights, strict=True):
        axes.annotate(
            f"{_SAMPLE[curve.structure]} {curve.variant}, {curve.structure}",
            (1.02, height),
            xycoords=("axes fraction", "data"),
            va="center",
            color=canvas.COLOUR_OF[curve.variant],
            annotation_clip=False,
        )
