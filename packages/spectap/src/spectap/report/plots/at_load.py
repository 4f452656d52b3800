"""Figures at one load point: the speed-up of each test case, and latencies over the run."""

import math
from collections.abc import Iterable, Sequence
from itertools import chain
from statistics import median
from typing import Final

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from spectap import metrics
from spectap.analysis import grouping
from spectap.analysis.estimate import Interval
from spectap.analysis.grouping import CellKey
from spectap.analysis.summary import Case, Summary
from spectap.inputs.config import Structure
from spectap.inputs.load_points import LoadPoint
from spectap.metrics import Metric
from spectap.records.record import Record
from spectap.report import cells, palette
from spectap.report.palette import Colour
from spectap.report.plots import canvas
from spectap.report.results import Results

_LINE: Final = 25  # points of height for a variant
_LEAST: Final = 120  # points of height
_GAP: Final = 0.5  # lines between two test cases
_PANEL: Final = 150  # points of height
_LATENCIES: Final = (metrics.END_TO_END_LATENCY, metrics.TIME_PER_OUTPUT_TOKEN, metrics.TTFT)
_DOTS: Final = 250  # of a curve: more cannot be told apart, but make the page heavy

Point = tuple[float, float]


def paint_gains(summary: Summary) -> Figure | None:
    """The gain of whole requests in each class of test cases, with its interval.

    A line for each variant of each class; None where no interval is known.
    """
    groups: dict[str, list[tuple[str, Interval]]] = {}
    for name, mean in cells.by_class(summary):
        if mean.speed:
            groups.setdefault(name, []).append((mean.variant, mean.speed))
    if not groups:
        return None
    colours = palette.of(summary.variants)
    lines = sum(len(gains) + _GAP for gains in groups.values())
    figure, [[axes]] = canvas.panels(1, 1, max(_LEAST, _LINE * lines))
    middles, height = [], 0.0
    for gains in groups.values():
        middles.append(height + (len(gains) - 1) / 2)
        for variant, ratio in gains:
            canvas.paint_point(axes, ratio.point, height, colours[variant])
            axes.hlines(height, ratio.low, ratio.high, color=colours[variant].light, linewidth=2)
            height += 1
        height += _GAP
    drawn = [gain for gains in groups.values() for gain in gains]
    canvas.scale_ratios(axes, [ratio for _, ratio in drawn])
    axes.axvline(1, color=canvas.INK, linewidth=1)
    axes.set_ylim(height - 0.5, -0.75)
    axes.set_yticks(middles, [*groups], color=canvas.INK)
    axes.grid(visible=False, axis="y")
    axes.set_xlabel("times as fast as the baseline")
    named = {variant for variant, _ in drawn}
    canvas.legend(figure, {name: colours[name] for name in colours if name in named})
    return figure


def paint_over_time(run: Results, load: LoadPoint) -> Figure | None:
    """The headline cases' latencies by the time of sending, at one load point.

    It follows the article's Figures 3 to 5 and shows drift. None where no request has a latency.
    """
    colours = palette.of(run.summary.variants)
    by_cell = grouping.by_cell(sorted(run.records, key=lambda record: record.sent))
    curves: dict[Metric, list[tuple[Case, Colour, list[list[Point]]]]] = {}
    for metric in _LATENCIES:
        for case in (case for case in run.summary.cases if case.headline):
            for variant, colour in colours.items():
                records = by_cell.get(CellKey(case.name, load.name, variant), ())
                if any(points := _rounds(run, records, metric)):
                    curves.setdefault(metric, []).append((case, colour, points))
    if not curves:
        return None
    figure, grid = canvas.panels(len(curves), 1, _PANEL, sharex=True)
    panels = grid[:, 0]
    for axes, (metric, of) in zip(panels, curves.items(), strict=True):
        for case, colour, points in of:
            _paint_rounds(axes, points, colour, solid=case.structure != Structure.OPEN_ENDED)
        highest = max(y for *_, points in of for _, y in chain(*points))
        axes.set_ylim(0, 1.12 * highest or 1)  # answers of one chunk have a latency of 0
        axes.set_ylabel(f"{metric.short}, {metric.printed}")
        axes.grid(visible=False, axis="x")
    panels[-1].set_xlabel("minutes since the first request")
    structures = {case.structure or case.name for of in curves.values() for case, *_ in of}
    styles = {name: "--" if name == Structure.OPEN_ENDED else "-" for name in sorted(structures)}
    canvas.legend(figure, colours, **styles)
    return figure


def _rounds(run: Results, records: Iterable[Record], metric: Metric) -> list[list[Point]]:
    """The requests of each round: when each was sent, in minutes, and its value."""
    start = run.summary.started or 0.0
    rounds: dict[int, list[Point]] = {
        number: [] for number in range(1, run.config.load.rounds.at_most + 1)
    }
    for record in records:
        if record.round in rounds and record.succeeded:
            at = (record.sent - start) / 60
            rounds[record.round] += [(at, v * metric.scale) for v in metric.values(record)]
    return [*rounds.values()]


def _paint_rounds(
    axes: Axes, rounds: Sequence[Sequence[Point]], colour: Colour, *, solid: bool
) -> None:
    """A dot for each request, and a line that joins the medians of the rounds."""
    requests = [*chain(*rounds)]
    x, y = zip(*requests[:: math.ceil(len(requests) / _DOTS)], strict=True)
    face = colour.light if solid else "none"
    axes.plot(x, y, colour.marker, color=colour.light, mfc=face, ms=3.5, mew=0.8, alpha=0.35)
    medians = [tuple(map(median, zip(*of, strict=True))) for of in rounds if of]
    style = "-" if solid else (0, (4, 2))
    axes.plot(*zip(*medians, strict=True), color=colour.light, linewidth=1.6, linestyle=style)
