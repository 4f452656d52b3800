"""One test case over its loads: ratios to the baseline, latencies, throughput against speed."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from spectap import metrics, palette
from spectap.analysis.estimates.intervals import Interval
from spectap.analysis.summary import Case, Cell, Comparison, Crossover, Ladder, Summary
from spectap.load_points import LoadPoint
from spectap.palette import Colour
from spectap.report import phrases
from spectap.report.plots import canvas

_RATIO_PANEL: Final = 175  # points of height
_LATENCY_PANEL: Final = 130
_PARETO: Final = 260
_SHIFT: Final = 0.03  # of the axis, between variants at the same load
_DASHED: Final = (0, (4, 3))
_LATENCIES: Final = (metrics.TTFT, metrics.TIME_PER_OUTPUT_TOKEN, metrics.END_TO_END_LATENCY)


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
    "throughput of all together",
    lambda comparison: comparison.cost.interval if comparison.cost else None,
    lambda ladder: ladder.cost,
)
DECODING: Final = Ratio("speed of decoding", lambda comparison: comparison.by_time_per_output_token)


def paint_ratios(summary: Summary, case: Case, ratios: Iterable[Ratio]) -> Figure | None:
    """A row of panels for each ratio, a panel for each kind of load; None without any ratio."""
    kinds = _kinds(case)
    rows = [(ratio, [_points(summary, case, ratio, kind) for kind in kinds]) for ratio in ratios]
    rows = [(ratio, panels) for ratio, panels in rows if any(panels)]
    if not rows:
        return None
    figure, grid = _grid([ratio.label for ratio, _ in rows], kinds, _RATIO_PANEL)
    colours = palette.of(summary.variants)
    for row, (ratio, panels) in zip(grid, rows, strict=True):
        intervals = [interval for of in panels for points in of.values() for _, interval in points]
        canvas.scale_ratios(row[0], intervals, along="y")
        for axes, of, kind in zip(row, panels, kinds, strict=True):
            axes.axhline(1, color=canvas.INK, linewidth=1)
            for number, (variant, points) in enumerate(of.items()):
                # Intervals at one load stand side by side.
                shift = 1 + _SHIFT * (number - (len(of) - 1) / 2)
                at = [shift * cell.load.amount for cell, _ in points if cell.load]
                hollow = [bool(phrases.load_mark(cell)) for cell, _ in points]
                curve = [interval for _, interval in points]
                canvas.paint_curve(axes, at, curve, colours[variant], hollow)
            for ladder in case.ladders:
                crossover = ratio.crossover(ladder)
                if ladder.open is kind[0].open and crossover:
                    _paint_crossover(axes, crossover, colours[ladder.variant])
    compared = {cell.variant for cell, _ in case.compared}
    canvas.legend(figure, {name: colours[name] for name in colours if name in compared})
    return figure


def paint_latency(summary: Summary, case: Case) -> Figure | None:
    """A row of panels for each latency, a panel for each kind of load; None without any."""
    kinds = _kinds(case)
    drawn = [metric for metric in _LATENCIES if any(cell.measure(metric) for cell in case.cells)]
    if not drawn or not kinds:
        return None
    limits = phrases.objective_limits(summary.objectives) if summary.objectives else {}
    colours = palette.of(summary.variants)
    figure, grid = _grid([f"{metric.short}, ms" for metric in drawn], kinds, _LATENCY_PANEL)
    for row, metric in zip(grid, drawn, strict=True):
        for axes, kind in zip(row, kinds, strict=True):
            for variant, colour in colours.items():
                samples = [
                    (load.amount, 1000 * sample.p50, 1000 * sample.p90)
                    for load in kind
                    if (sample := case.cell(variant, load).measure(metric))
                ]
                loads, medians, tails = zip(*samples, strict=True) if samples else ((), (), ())
                axes.plot(loads, medians, color=colour.light, marker=colour.marker, markersize=5)
                axes.plot(loads, tails, "_", color=colour.light, linestyle=_DASHED, linewidth=1.2)
            axes.set_ylim(bottom=0)
            if limit := limits.get(metric.short):
                axes.axhline(limit, color=canvas.INK, linewidth=1.2, linestyle=":")
    styles = {"p50": "-", "p90": "--"} | ({"objective_for_p90": ":"} if limits else {})
    canvas.legend(figure, colours, **styles)
    return figure


def paint_pareto(summary: Summary, case: Case) -> Figure | None:
    """Tokens a second of all requests together against those of one after its prefill.

    A curve for each variant and kind of load; None where no cell has both.
    """
    figure, [[axes]] = canvas.panels(1, 1, _PARETO)
    colours = palette.of(summary.variants)
    drawn: dict[str, Colour] = {}
    for variant, colour in colours.items():
        for kind in _kinds(case):
            cells = [case.cell(variant, load) for load in kind]
            points = [(cell, point) for cell in cells if (point := _speeds(cell))]
            if not points:
                continue
            drawn[variant] = colour
            x, y = zip(*(point for _, point in points), strict=True)
            style = _DASHED if kind[0].open else "-"
            axes.plot(x, y, color=colour.light, linewidth=1.6, linestyle=style)
            for cell, point in points:
                missed = cell.goodput is not None and not cell.goodput.met
                canvas.paint_point(axes, *point, colour, hollow=missed)
                axes.annotate(
                    phrases.short_load(cell.load),
                    point,
                    (6, 5),
                    textcoords="offset points",
                    color=colour.light,
                    size=canvas.FONT_SIZE - 1,
                )
    if not drawn:
        return None
    styles = {}
    if summary.objectives and (limit := summary.objectives.tpot_p90_ms):
        # It is about p90, and the curves about the median.
        axes.axvline(1000 / limit, color=canvas.MUTED, linewidth=1.2, linestyle=":")
        styles[f"objective: TPOT {limit:g} ms"] = ":"
    axes.set_xlim(0, 1.12 * axes.dataLim.xmax)
    axes.set_ylim(0, 1.15 * axes.dataLim.ymax)
    axes.set_xlabel("tokens a second of one request while it is decoded (1 / median TPOT)")
    axes.set_ylabel("tokens a second of all requests together")
    canvas.legend(figure, drawn, **styles)
    return figure


def _kinds(case: Case) -> list[list[LoadPoint]]:
    """The load points of each kind there is, closed loops first, lowest first."""
    loads = sorted(filter(None, case.loads), key=lambda load: load.amount)
    kinds = ([load for load in loads if load.open is is_open] for is_open in (False, True))
    return [kind for kind in kinds if kind]


def _points(
    summary: Summary, case: Case, ratio: Ratio, kind: Sequence[LoadPoint]
) -> dict[str, list[tuple[Cell, Interval]]]:
    """Each variant's cells with their ratio, at the loads of one kind, if it has any."""
    points = {
        variant: [
            (cell, interval)
            for load in kind
            if (cell := case.cell(variant, load)).comparison
            and (interval := ratio.interval(cell.comparison))
        ]
        for variant in summary.variants
    }
    return {variant: of for variant, of in points.items() if of}


def _speeds(cell: Cell) -> tuple[float, float] | None:
    """Tokens a second of one request, and of all together."""
    sample = cell.measure(metrics.TIME_PER_OUTPUT_TOKEN)
    if sample is None or sample.p50 <= 0 or cell.tokens_per_second is None:
        return None
    return 1 / sample.p50, cell.tokens_per_second


def _grid(
    labels: Sequence[str], kinds: Sequence[Sequence[LoadPoint]], height: float
) -> tuple[Figure, Any]:
    """A row of panels of this height for each label, a column for each kind of load.

    Loads are on a logarithmic scale with a tick at each, which the lowest panel labels.
    """
    widths = [1 + len(kind) for kind in kinds]
    size = len(labels), len(kinds)
    figure, grid = canvas.panels(*size, height, sharex="col", sharey="row", width_ratios=widths)
    for row, label in zip(grid, labels, strict=True):
        row[0].set_ylabel(label)
    for column, kind in zip(grid.T, kinds, strict=True):
        loads = [load.amount for load in kind]
        column[-1].set_xlabel(f"requests {phrases.load_unit(kind)}")
        for axes in column:
            axes.set_xscale("log", base=2)
            axes.xaxis.set_major_locator(FixedLocator(loads))
            axes.xaxis.set_minor_locator(NullLocator())
            axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
            axes.set_xlim(min(loads) / 1.3, max(loads) * 1.3)
            axes.grid(visible=False, axis="x")
    return figure, grid


def _paint_crossover(axes: Axes, crossover: Crossover, colour: Colour) -> None:
    low, high = crossover.better_up_to, crossover.worse_from
    if low is None or high is None:
        return
    axes.axvspan(low, high, color=colour.light, alpha=canvas.BAND, linewidth=0)
    if crossover.point is not None:
        axes.plot(crossover.point, 1, "X", color=colour.light, markersize=8, mec=canvas.PAPER)
