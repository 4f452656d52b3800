"""A line per test case: Base against SD, speed-ups, llmperf's figure under the true one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from benchmark import wording
from benchmark.analysis.intervals import Interval
from benchmark.analysis.summary import Arm, Case
from benchmark.names import BASE, SPECULATIVE, VARIANTS
from benchmark.report.plots import canvas
from benchmark.report.results import Results

_ROW: Final = 25  # points of height for a case
_MARGINS: Final = 66  # and for the axis below and the names above
_TICKS: Final = (0.1, 0.2, 0.5, 0.7, 1, 1.5, 2, 3, 4, 5, 7, 10)

# A ratio up to here is called equal.
_APPRECIABLE: Final = 1.05

Estimate = tuple[float | None, Interval | None]
"""A figure and its interval, if it has one."""

End = tuple[str, Interval]


def paint_pairs(
    run: Results,
    value: Callable[[Arm], Estimate],
    write: Callable[[float | None], str],
    label: str,
) -> Figure:
    """Base and SD of each case as two dots with their intervals, joined.

    Raises ``NothingToDraw``.
    """
    rows = [(case.name, _ends(case, value)) for case in run.summary.cases]
    rows = [(name, ends) for name, ends in rows if ends]
    if not rows:
        raise canvas.NothingToDraw("no request succeeded")
    figure, axes = _axes([wording.short(name) for name, _ in rows])
    for row, (_, ends) in enumerate(rows):
        _paint_pair(axes, row, ends, write)
    largest = max(end.high for _, ends in rows for _, end in ends)
    _name_variants(axes, [(variant, end.point) for variant, end in rows[0][1]], largest)
    axes.set_xlim(0, 1.25 * largest)
    axes.set_xlabel(label)
    return figure


def paint_speedups(run: Results) -> Figure:
    """Each case's speed-ups with their intervals, by TPOT and end to end.

    Raises ``NothingToDraw``.
    """
    rows = [case for case in run.summary.cases if case.speedup is not None]
    if not rows:
        raise canvas.NothingToDraw("no case has enough requests of both variants")
    figure, axes = _axes([wording.short(case.name) for case in rows])
    for row, case in enumerate(rows):
        _paint_interval(axes, row - 0.14, case.by_time_per_output_token, canvas.SD, "o")
        _paint_interval(axes, row + 0.18, case.by_end_to_end, canvas.MUTED, "s")
    _scale_ratios(axes, rows)
    axes.axvline(1, color=canvas.INK, linewidth=1)
    axes.set_xlabel("SD is this many times faster")
    figure.legend(
        handles=axes.lines[:2],
        labels=["per output token", "end to end"],
        loc="outside upper right",
        ncols=2,
        handletextpad=0.2,
    )
    return figure


def paint_llmperf(run: Results) -> Figure:
    """llmperf's inter-token latency under the true time per output token.

    Raises ``NothingToDraw``.
    """
    rows = [(case.name, change) for case in run.summary.cases if (change := _changes(run, case))]
    if not rows:
        raise canvas.NothingToDraw("no case has both figures of both variants")
    heights = [1.25 * index + level for index in range(len(rows)) for level in (0, 0.5)]
    labels = [label for name, _ in rows for label in (f"{wording.short(name)} · true", "llmperf")]
    figure, axes = _axes(labels, heights, height=1.25 * len(rows) * 32)
    for row, (_, (true, published)) in enumerate(rows):
        _paint_change(axes, 1.25 * row, true, filled=True)
        _paint_change(axes, 1.25 * row + 0.5, published, filled=False)
        _say_change(axes, 1.25 * row, true, contradicted=False)
        _say_change(axes, 1.25 * row + 0.5, published, _contradicts(true, published))
    largest = max(end for _, pairs in rows for pair in pairs for end in pair)
    _name_variants(axes, list(zip(VARIANTS, rows[0][1][0], strict=True)), largest)
    axes.set_xlim(0, 1.06 * largest)
    axes.set_xlabel(f"ms per token, medians (llmperf's {run.published.origin})")
    return figure


def _axes(
    labels: Sequence[str], heights: Sequence[float] | None = None, height: float | None = None
) -> tuple[Figure, Axes]:
    figure = canvas.figure(_MARGINS + (height or _ROW * len(labels)))
    axes = figure.add_subplot()
    places = heights or range(len(labels))
    axes.set_ylim(max(places) + 0.5, -1)
    axes.set_yticks(places, labels, color=canvas.INK)
    axes.grid(visible=False, axis="y")
    return figure, axes


def _ends(case: Case, value: Callable[[Arm], Estimate]) -> list[End]:
    pairs = ((arm.tally.variant, *value(arm)) for arm in case.arms)
    ends = (
        (variant, interval or Interval(point, point, point))
        for variant, point, interval in pairs
        if point is not None
    )
    return sorted(ends, key=lambda end: end[1].point)


def _paint_pair(
    axes: Axes, row: int, ends: Sequence[End], write: Callable[[float | None], str]
) -> None:
    axes.plot([end.point for _, end in ends], [row] * len(ends), color=canvas.MUTED, linewidth=1)
    # Beside both intervals, which may overlap.
    leftmost, rightmost = min(end.low for _, end in ends), max(end.high for _, end in ends)
    for place, (variant, end) in enumerate(ends):
        colour = canvas.COLOUR_OF[variant]
        axes.plot(end.point, row, "o", color=colour, markersize=7)
        axes.hlines(row, end.low, end.high, color=colour, linewidth=2)
        left = place == 0 and len(ends) > 1
        axes.annotate(
            write(end.point),
            (leftmost if left else rightmost, row),
            (-8 if left else 8, 0),
            textcoords="offset points",
            ha="right" if left else "left",
            va="center",
            color=colour,
            size=canvas.SMALL,
        )


def _name_variants(axes: Axes, ends: Sequence[tuple[str, float]], largest: float) -> None:
    # Named once, above the first row: the colours then carry through the whole report.
    ordered = sorted(ends, key=lambda pair: pair[1])
    close = len(ordered) == 2 and ordered[1][1] - ordered[0][1] < largest / 8
    for (variant, end), side in zip(ordered, ("right", "left"), strict=False):
        axes.annotate(
            variant,
            (end, 0),
            ({"right": 6, "left": -6}[side] if close else 0, 10),
            textcoords="offset points",
            ha=side if close else "center",
            color=canvas.COLOUR_OF[variant],
            weight="bold",
        )


def _paint_interval(
    axes: Axes, height: float, interval: Interval | None, colour: str, marker: str
) -> None:
    if interval is None:
        return
    axes.plot(interval.point, height, marker, color=colour, markersize=6, linestyle="none")
    axes.hlines(height, interval.low, interval.high, color=colour, linewidth=2)


def _scale_ratios(axes: Axes, cases: Sequence[Case]) -> None:
    shown = [
        interval
        for case in cases
        for interval in (case.by_time_per_output_token, case.by_end_to_end)
        if interval is not None
    ]
    axes.set_xscale("log")
    low = min(0.8, *(interval.low / 1.1 for interval in shown))
    axes.set_xlim(low, max(1.25, *(interval.high * 1.1 for interval in shown)))
    axes.xaxis.set_major_locator(FixedLocator(_TICKS))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda ratio, _: f"{ratio:g}x"))


def _changes(run: Results, case: Case) -> tuple[tuple[float, float], tuple[float, float]] | None:
    """Milliseconds per token of (Base, SD): the true ones, then llmperf's."""
    true = [arm.time_per_output_token.p50 for arm in case.arms if arm.time_per_output_token]
    published = [run.published.medians.get((case.name, variant)) for variant in VARIANTS]
    if len(true) < 2 or published[0] is None or published[1] is None:
        return None
    return (1000 * true[0], 1000 * true[1]), (1000 * published[0], 1000 * published[1])


def _contradicts(true: tuple[float, float], published: tuple[float, float]) -> bool:
    truth, claim = true[0] / true[1], published[0] / published[1]
    return truth > 1 / _APPRECIABLE > claim


def _paint_change(axes: Axes, height: float, change: tuple[float, float], *, filled: bool) -> None:
    base, speculative = change
    if not 1 / _APPRECIABLE < base / speculative < _APPRECIABLE:
        axes.annotate(
            "",
            (speculative, height),
            (base, height),
            arrowprops={"arrowstyle": "-|>", "color": canvas.MUTED, "shrinkA": 3, "shrinkB": 3},
        )
    for variant, end in ((BASE, base), (SPECULATIVE, speculative)):
        colour = canvas.COLOUR_OF[variant]
        axes.plot(end, height, "o", color=colour, mfc=colour if filled else "none", markersize=6)


def _say_change(axes: Axes, height: float, change: tuple[float, float], contradicted: bool) -> None:
    base, speculative = change
    ratio = max(base, speculative) / min(base, speculative)
    direction = "faster" if speculative < base else "slower"
    axes.annotate(
        f"{ratio:.1f}x {direction}" if ratio >= _APPRECIABLE else "equal",
        (1.02, height),
        xycoords=("axes fraction", "data"),
        va="center",
        color=canvas.INK if contradicted else canvas.MUTED,
        weight="bold" if contradicted else "normal",
        annotation_clip=False,
    )
