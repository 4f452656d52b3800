"""Figures over the loads: ratios to the baseline, latencies, throughput against speed."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from spectap import metrics
from spectap.analysis.cells import limits_of
from spectap.analysis.estimate import Interval
from spectap.analysis.summary import Case, Cell, Crossover, Summary
from spectap.analysis.verdicts import Comparison
from spectap.inputs import load_points
from spectap.inputs.load_points import LoadPoint
from spectap.report import cells, palette, phrases
from spectap.report.palette import Colour
from spectap.report.plots import canvas

_RATIO_PANEL: Final = 150  # points of height
_LATENCY_PANEL: Final = 130
_PARETO: Final = 260
_SHIFT: Final = 0.03  # of the axis, between variants at the same load
_DASHED: Final = (0, (4, 3))
_LATENCIES: Final = (metrics.TTFT, metrics.TIME_PER_OUTPUT_TOKEN, metrics.END_TO_END_LATENCY)


@dataclass(frozen=True)
class Ratios:
    """One row of panels: ratios to the baseline over the load."""

    label: str
    points: Sequence[tuple[str, LoadPoint, Interval, bool]]
    """Points: the variant, the load, its ratio, and whether the load is marked."""
    crossovers: Sequence[tuple[str, bool, Crossover]] = ()
    """Crossovers: the variant, whether its loads are open, and where it turns."""


def of_classes(summary: Summary) -> list[Ratios]:
    """The speed of each class of test cases."""
    marked = {
        (cell.variant, cell.load)
        for case in summary.cases
        for cell in case.cells
        if phrases.load_mark(cell)
    }
    rows: dict[str, list[tuple[str, LoadPoint, Interval, bool]]] = {}
    for name, row in cells.by_class(summary):
        if row.speed and row.load:
            point = row.variant, row.load, row.speed, (row.variant, row.load) in marked
            rows.setdefault(name, []).append(point)
    return [Ratios(label, points) for label, points in rows.items()]


def of_case(case: Case) -> list[Ratios]:
    """The speed of a test case, its throughput, and the decoding that explains its speed."""

    ratios: dict[str, tuple[Callable[[Comparison], Interval | None], str]] = {
        "speed of a request": (lambda c: c.speedup, "speed"),
        "throughput of all together": (lambda c: c.cost.interval if c.cost else None, "cost"),
        "speed of decoding": (lambda c: c.by_time_per_output_token, ""),
    }
    return [
        Ratios(
            label,
            [
                (cell.variant, cell.load, ratio, bool(phrases.load_mark(cell)))
                for cell, comparison in case.compared
                if cell.load and (ratio := of(comparison))
            ],
            [(o.variant, o.loads[0].open, getattr(o, field)) for o in case.ladders if field],
        )
        for label, (of, field) in ratios.items()
    ]


def paint_ratios(summary: Summary, rows: Iterable[Ratios]) -> Figure | None:
    """Rows of panels, a panel for each kind of load; None without any ratio."""
    if not (rows := [row for row in rows if row.points]):
        return None
    compared = {name for row in rows for name, *_ in row.points}
    kinds = load_points.kinds({load for row in rows for _, load, *_ in row.points})
    figure, grid = _grid([row.label for row in rows], kinds, _RATIO_PANEL)
    colours = palette.of(summary.variants)
    variants = [name for name in summary.variants if name in compared]
    for panels, row in zip(grid, rows, strict=True):
        canvas.scale_ratios(panels[0], [ratio for _, _, ratio, _ in row.points], along="y")
        for axes, kind in zip(panels, kinds, strict=True):
            axes.axhline(1, color=canvas.INK, linewidth=1)
            for number, variant in enumerate(variants):
                points = sorted(
                    (load.amount, ratio, hollow)
                    for name, load, ratio, hollow in row.points
                    if name == variant and load in kind
                )
                if points:
                    # Intervals at one load stand side by side.
                    shift = 1 + _SHIFT * (number - (len(variants) - 1) / 2)
                    at, curve, hollow = zip(*points, strict=True)
                    canvas.paint_curve(
                        axes, [shift * amount for amount in at], curve, colours[variant], hollow
                    )
            for variant, is_open, crossover in row.crossovers:
                low, high, colour = crossover.better_up_to, crossover.worse_from, colours[variant]
                if is_open is not kind[0].open or low is None or high is None:
                    continue
                axes.axvspan(low, high, color=colour.light, alpha=canvas.BAND, linewidth=0)
                if (at_1 := crossover.point) is not None:
                    axes.plot(at_1, 1, "X", color=colour.light, markersize=8, mec=canvas.PAPER)
    canvas.legend(figure, {name: colours[name] for name in variants})
    return figure


def paint_latency(summary: Summary, case: Case) -> Figure | None:
    """A row of panels for each latency, a panel for each kind of load; None without any."""
    kinds = load_points.kinds(filter(None, case.loads))
    drawn = [metric for metric in _LATENCIES if any(cell.measure(metric) for cell in case.cells)]
    if not drawn or not kinds:
        return None
    limits = dict(limits_of(summary.objectives)) if summary.objectives else {}
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
            if limit := limits.get(metric):
                axes.axhline(limit, color=canvas.INK, linewidth=1.2, linestyle=":")
    styles = {"p50": "-", "p90": "--"} | ({"objective_for_p90": ":"} if limits else {})
    canvas.legend(figure, colours, **styles)
    return figure


def paint_pareto(summary: Summary, case: Case) -> Figure | None:
    """Tokens a second of all requests together, against those of one request after its prefill.

    A curve for each variant and kind of load; None where no cell has both.
    """
    figure, [[axes]] = canvas.panels(1, 1, _PARETO)
    colours = palette.of(summary.variants)
    drawn: dict[str, Colour] = {}
    for variant, colour in colours.items():
        for kind in load_points.kinds(filter(None, case.loads)):
            of_kind = [case.cell(variant, load) for load in kind]
            points = [(cell, point) for cell in of_kind if (point := _speeds(cell))]
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
