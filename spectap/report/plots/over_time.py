"""Latencies over the time of a run, after the article's Figures 3 to 5: drift is seen here."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import chain
from statistics import median
from typing import Final

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from spectap import metrics, palette
from spectap.analysis.summary import Case
from spectap.config import Structure
from spectap.load_points import LoadPoint
from spectap.metrics import Metric
from spectap.names import WARM_UP
from spectap.palette import Colour
from spectap.record import Record
from spectap.report.plots import canvas
from spectap.report.results import Results

_METRICS: Final = (metrics.END_TO_END_LATENCY, metrics.TIME_PER_OUTPUT_TOKEN, metrics.TTFT)
_PANEL: Final = 150  # points of height
_MARGINS: Final = 80
# More dots on a curve cannot be told from each other, but make the page heavy.
_DOTS: Final = 250
_WAVES: Final = 60
_OPEN_ENDED: Final = (0, (4, 2))
# In an open loop no requests are sent together; so many in a row make one point of a line.
_IN_A_ROW: Final = 8

Point = tuple[float, float]


def wave(load: LoadPoint) -> int:
    """How many requests make one point of a line."""
    return load.concurrency or _IN_A_ROW


def paint(run: Results) -> Figure:
    """The headline cases' latencies against the time of sending, at the run's one load point.

    Raises ``NothingToDraw``.
    """
    curves = {
        metric: [
            (case, colour, points)
            for case in run.summary.cases
            if case.headline
            for variant, colour in palette.of(run.summary.variants).items()
            if any(points := _rounds(run, case, variant, metric))
        ]
        for metric in _METRICS
    }
    curves = {metric: of for metric, of in curves.items() if of}
    if not curves:
        raise canvas.NothingToDraw("no request of a headline case gave this measure")
    figure = canvas.figure(_MARGINS + _PANEL * len(curves))
    every = figure.subplots(len(curves), 1, sharex=True, squeeze=False)[:, 0]
    last = max(x for of in curves.values() for *_, points in of for x, _ in chain(*points))
    unit, seconds = _time_unit(last)
    for axes, (metric, of) in zip(every, curves.items(), strict=True):
        for case, colour, points in of:
            _paint_curve(axes, points, wave(run.summary.loads[0]), colour, case, seconds)
        axes.set_ylim(0, 1.12 * max(y for *_, points in of for _, y in chain(*points)))
        axes.set_ylabel(f"{metric.short}, {metric.printed}")
        axes.grid(visible=False, axis="x")
    every[-1].set_xlabel(f"{unit} since the first request")
    structures = {case.structure or case.name for of in curves.values() for case, *_ in of}
    styles = {name: "--" if name == Structure.OPEN_ENDED else "-" for name in sorted(structures)}
    canvas.legend(figure, palette.of(run.summary.variants), **styles)
    return figure


def _rounds(run: Results, case: Case, variant: str, metric: Metric) -> list[list[Point]]:
    """The requests of each round: when each was sent, and its value."""
    start = run.summary.started or 0.0
    records = sorted(_requests(run, case, variant), key=lambda record: record.sent)
    return [
        [
            (record.sent - start, value * metric.scale)
            for record in records
            if record.round == number
            for value in metric.values(record)
        ]
        for number in range(1, run.config.load.rounds.at_most + 1)
    ]


def _requests(run: Results, case: Case, variant: str) -> Iterator[Record]:
    for record in run.records:
        counts = record.round > WARM_UP and record.succeeded
        if counts and (record.case, record.variant) == (case.name, variant):
            yield record


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


def _paint_curve(
    axes: Axes,
    rounds: Sequence[Sequence[Point]],
    together: int,
    colour: Colour,
    case: Case,
    seconds: float,
) -> None:
    solid = case.structure != Structure.OPEN_ENDED
    requests = [point for points in rounds for point in points]
    dots = requests[:: math.ceil(len(requests) / _DOTS)]
    axes.scatter(
        [x / seconds for x, _ in dots],
        [y for _, y in dots],
        s=12,
        marker=colour.marker,
        linewidths=0.8,
        facecolors=colour.light if solid else "none",
        edgecolors=colour.light,
        alpha=0.35,
    )
    waves = [*_waves(rounds, together)]
    axes.plot(
        [x / seconds for x, _ in waves],
        [y for _, y in waves],
        color=colour.light,
        linewidth=1.6,
        linestyle="-" if solid else _OPEN_ENDED,
    )
