"""Lines per test case, one a variant: figures with their intervals, and speed-ups."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from spectap import palette, wording
from spectap.analysis.estimates.intervals import Interval
from spectap.analysis.summary import Cell, Comparison
from spectap.palette import Colour
from spectap.report.plots import canvas
from spectap.report.results import Results

_LINE: Final = 18  # points of height for a line
_GAP: Final = 0.5  # lines between two test cases
_MARGINS: Final = 70  # points for the axis below and the legend above
_CHARACTER: Final = 6.5  # points of width in a legend
_HANDLE: Final = 42
_TICKS: Final = (0.1, 0.2, 0.3, 0.5, 0.7, 1, 1.5, 2, 3, 4, 5, 7, 10)
_CLOSE_TICKS: Final = (0.6, 0.7, 0.8, 0.9, 1, 1.1, 1.2, 1.3, 1.4, 1.5)

Estimate = tuple[float | None, Interval | None]
"""A figure and its interval, if it has one."""


@dataclass(frozen=True)
class _Place:
    """A test case in a figure: where its name and its lines are."""

    name: str
    lines: tuple[float, ...]


def paint_values(
    run: Results,
    value: Callable[[Cell], Estimate],
    write: Callable[[float | None], str],
    label: str,
) -> Figure:
    """A line for each variant of each case, with its interval. Raises ``NothingToDraw``."""
    shown = [
        (case.name, ends)
        for case in run.summary.cases
        if (ends := [(cell, end) for cell in case.cells if (end := _end(value(cell)))])
    ]
    if not shown:
        raise canvas.NothingToDraw("no test case has it: requests failed or are missing")
    colours = palette.of(run.summary.variants)
    figure, axes, places = _axes([(name, len(ends)) for name, ends in shown])
    for place, (_, ends) in zip(places, shown, strict=True):
        for height, (cell, end) in zip(place.lines, ends, strict=True):
            colour = colours[cell.variant]
            paint_interval(axes, height, end, colour.light, colour.marker)
            _say(axes, (end.high, height), write(end.point), colour.light)
    axes.set_xlim(0, 1.2 * max(end.high for _, ends in shown for _, end in ends))
    axes.set_xlabel(label)
    drawn = {cell.variant for _, ends in shown for cell, _ in ends}
    legend(axes, {name: colours[name] for name in run.summary.variants if name in drawn})
    return figure


def paint_speedups(run: Results) -> Figure:
    """The speed-ups of each case with their intervals: of whole requests, and of decoding.

    Raises ``NothingToDraw``.
    """
    shown = [
        (case.name, pairs)
        for case in run.summary.cases
        if (pairs := [pair for pair in case.compared if pair[1].speedup is not None])
    ]
    if not shown:
        raise canvas.NothingToDraw("no test case has enough rounds of a variant and its baseline")
    colours = palette.of(run.summary.variants)
    figure, axes, places = _axes([(name, len(pairs)) for name, pairs in shown], line=1.4 * _LINE)
    for place, (_, pairs) in zip(places, shown, strict=True):
        for height, (cell, found) in zip(place.lines, pairs, strict=True):
            colour = colours[cell.variant]
            paint_interval(axes, height - 0.14, found.speedup, colour.light, colour.marker)
            decoding = found.by_time_per_output_token
            paint_interval(axes, height + 0.2, decoding, canvas.MUTED, "s")
    scale_ratios(axes, _ratios(found for _, pairs in shown for _, found in pairs))
    axes.axvline(1, color=canvas.INK, linewidth=1)
    axes.set_xlabel("times faster than the baseline: the whole request, and decoding alone")
    drawn = {cell.variant for _, pairs in shown for cell, _ in pairs}
    decoding_alone = {"decoding": Colour("muted", canvas.MUTED, canvas.MUTED, "s")}
    legend(axes, {name: colours[name] for name in colours if name in drawn} | decoding_alone)
    return figure


def legend(axes: Axes, colours: dict[str, Colour]) -> None:
    """Names the colours above the axes, in as many columns as fit."""
    names = [wording.short(name) for name in colours]
    handles = [
        Line2D([], [], color=colour.light, marker=colour.marker, markersize=6, linestyle="none")
        for colour in colours.values()
    ]
    widest = _HANDLE + _CHARACTER * max(map(len, names))
    legend = axes.legend(
        handles=handles,
        labels=names,
        loc="lower right",
        bbox_to_anchor=(1, 1),
        borderaxespad=0,
        ncols=max(1, min(len(names), int(canvas.WIDTH // widest))),
        handletextpad=0.2,
    )
    for text, colour in zip(legend.get_texts(), colours.values(), strict=True):
        text.set_color(colour.light)


def paint_interval(
    axes: Axes, height: float, interval: Interval | None, colour: str, marker: str
) -> None:
    """A point with its interval, on a line of its own; nothing where there is none."""
    if interval is None:
        return
    axes.plot(interval.point, height, marker, color=colour, markersize=6, linestyle="none")
    axes.hlines(height, interval.low, interval.high, color=colour, linewidth=2)


def scale_ratios(axes: Axes, shown: Sequence[Interval], *, along: Literal["x", "y"] = "x") -> None:
    """A logarithmic scale for ratios with a place for 1, whose ticks read ``1.5x``."""
    low = min([0.8, *(interval.low / 1.1 for interval in shown)])
    high = max([1.25, *(interval.high * 1.1 for interval in shown)])
    scale, axis = (axes.set_xscale, axes.xaxis) if along == "x" else (axes.set_yscale, axes.yaxis)
    scale("log")
    (axes.set_xlim if along == "x" else axes.set_ylim)(low, high)
    axis.set_major_locator(FixedLocator(_CLOSE_TICKS if high / low < 2 else _TICKS))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda ratio, _: f"{ratio:g}x"))


def _axes(
    sizes: Sequence[tuple[str, int]], line: float = _LINE
) -> tuple[Figure, Axes, list[_Place]]:
    """Axes with so many lines for each test case, whose name stands beside the middle of them."""
    places, height = [], 0.0
    for name, size in sizes:
        places.append(_Place(name, tuple(height + number for number in range(size))))
        height += size + _GAP
    figure = canvas.figure(_MARGINS + line * height)
    axes = figure.add_subplot()
    axes.set_ylim(height - 0.5, -0.75)
    middles = [sum(place.lines) / len(place.lines) for place in places]
    axes.set_yticks(middles, [wording.short(place.name) for place in places], color=canvas.INK)
    axes.grid(visible=False, axis="y")
    return figure, axes, places


def _end(estimate: Estimate) -> Interval | None:
    point, interval = estimate
    if point is None:
        return None
    return interval or Interval(point, point, point)


def _say(axes: Axes, point: tuple[float, float], text: str, colour: str) -> None:
    axes.annotate(
        text,
        point,
        (8, 0),
        textcoords="offset points",
        va="center",
        color=colour,
        size=canvas.SMALL,
    )


def _ratios(comparisons: Iterable[Comparison]) -> list[Interval]:
    return [
        interval
        for found in comparisons
        for interval in (found.speedup, found.by_time_per_output_token)
        if interval is not None
    ]
