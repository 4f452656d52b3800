"""The columns and tables of the report, as text. The terminal's table has the same columns."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from spectap import metrics, wording
from spectap.analysis.estimates import intervals
from spectap.analysis.summary import Case, Cell, Summary
from spectap.metrics import Metric
from spectap.names import WARM_UP
from spectap.report import answers, loads, objectives
from spectap.report.results import Results

_PERCENTILES: Final = ("p50", "p90", "p99")


@dataclass(frozen=True)
class Group:
    """Columns that belong together, and their texts for one cell."""

    title: str
    columns: tuple[str, ...]
    texts: Callable[[Cell], Sequence[str]]


@dataclass(frozen=True)
class Row:
    """The line of one variant: the texts of each group."""

    variant: str
    groups: tuple[Sequence[str], ...]


@dataclass(frozen=True)
class Table:
    """A table with a line for each variant of each test case, or of each load point of one."""

    title: str
    of: str
    """What each of its bodies is: a test case, or a load point."""
    groups: tuple[Group, ...]
    bodies: tuple[tuple[str, tuple[Row, ...]], ...]
    """For each of them its name and its lines."""


def tables(run: Results) -> tuple[Table, ...]:
    """Every table of one load point: of single requests, of all together, of the comparisons."""
    priced = answers.priced(run.summary)
    latencies = [metric for metric in metrics.METRICS if metric.unit == "Seconds"]
    others = [metric for metric in metrics.METRICS if metric.unit != "Seconds"]
    medians = [metric for metric in latencies if metric.percentiles]
    cases = run.summary.cases
    every = [(case.name, case.cells) for case in cases]
    compared = [(case.name, [cell for cell, _ in case.compared]) for case in cases if case.compared]
    found = [
        _table("Latency", map(_of_metric, latencies), every),
        _table("The median latency of a typical round", map(_of_median, medians), every),
        _table("Throughput and tokens of a request", map(_of_metric, others), every),
        _table("All requests together", (_requests(run), _together(priced=priced)), every),
    ]
    if kept := tuple(_kept(run.summary)):
        found.append(_table("What was promised, and what the load was", kept, every))
    if compared:
        title = f"Speed-ups, and llmperf's inter-token latency {run.published.origin}"
        found.append(_table(title, _comparisons(run), compared))
    return tuple(found)


def of_case(case: Case, summary: Summary) -> Table:
    """One test case at all its load points."""
    named = [metric for metric in metrics.METRICS if metric.percentiles and metric.printed == "ms"]
    groups = [
        *(of_metric(metric, ("p50", "p90"), metric.heading) for metric in named),
        *_kept(summary),
        _together(priced=answers.priced(summary)),
    ]
    return _table(
        "At each load point",
        groups,
        [(loads.words([point]), case.at(point)) for point in case.loads],
        of="load point",
    )


def _kept(summary: Summary) -> Iterator[Group]:
    """Whether the objectives were kept, and the load's own promise; what there is of both."""
    cells = [cell for case in summary.cases for cell in case.cells]
    if any(cell.goodput for cell in cells):
        yield Group("Goodput, 95 % interval", ("share of requests", "objectives"), objectives.texts)
    if any(cell.queued or cell.schedule for cell in cells):
        yield Group("Load", ("in flight", "sent late, p99", "mark"), _loaded)


def _loaded(cell: Cell) -> tuple[str, ...]:
    late = f"{wording.milliseconds(cell.schedule.p99)} ms" if cell.schedule else wording.MISSING
    return wording.significant(cell.in_flight), late, loads.mark(cell) or wording.MISSING


def of_metric(metric: Metric, percentiles: tuple[str, ...], title: str) -> Group:
    """The columns of one metric."""

    def texts(cell: Cell) -> list[str]:
        sample = cell.measure(metric)
        return [
            wording.MISSING if sample is None else _written(metric, getattr(sample, percentile))
            for percentile in percentiles
        ]

    return Group(title, percentiles, texts)


def _of_metric(metric: Metric) -> Group:
    return of_metric(metric, _PERCENTILES, metric.heading)


def _of_median(metric: Metric) -> Group:
    """The bounds alone: the point of a typical round is not quite the p50 of all requests."""

    def texts(cell: Cell) -> list[str]:
        sample = cell.measure(metric)
        if sample is None or sample.typical is None:
            return [wording.MISSING]
        low, high = (_written(metric, bound) for bound in (sample.typical.low, sample.typical.high))
        return [f"{low}-{high}"]

    return Group(metric.heading, ("95 % interval",), texts)


def _written(metric: Metric, value: float) -> str:
    # A number of tokens is whole, unless it lies between two requests' numbers.
    if metric.unit == "Count" and value == int(value):
        return f"{value:,.0f}"
    return wording.significant(value * metric.scale)


def _table(
    title: str,
    groups: Iterable[Group],
    bodies: Iterable[tuple[str, Sequence[Cell]]],
    of: str = "test case",
) -> Table:
    columns = tuple(groups)

    def rows(cells: Sequence[Cell]) -> tuple[Row, ...]:
        return tuple(
            Row(cell.variant, tuple(group.texts(cell) for group in columns)) for cell in cells
        )

    return Table(title, of, columns, tuple((name, rows(cells)) for name, cells in bodies))


def _requests(run: Results) -> Group:
    rounds = defaultdict(set)
    for record in run.records:
        if record.round > WARM_UP:
            rounds[record.case, record.variant].add(record.round)

    def texts(cell: Cell) -> list[str]:
        of = "" if cell.complete else f" of {cell.expected}"
        measured = len(rounds[cell.test_case, cell.variant])
        return [str(measured), f"{cell.requests}{of}", str(cell.errors)]

    return Group("Measured", ("rounds", "requests", "failed"), texts)


def _together(*, priced: bool) -> Group:
    def texts(cell: Cell) -> Iterator[str]:
        yield intervals.estimate(
            cell.tokens_per_second, cell.tokens_per_second_interval, wording.significant
        )
        if priced:
            yield intervals.estimate(
                cell.usd_per_million_output_tokens,
                cell.usd_per_million_output_tokens_interval,
                wording.dollars,
            )
        if cell.steps is None:
            yield wording.MISSING
        else:
            # Every step of a baseline yields one token.
            surely = {size for size, _ in cell.steps.histogram} == {1}
            interval = None if surely else cell.steps.interval
            yield intervals.estimate(cell.steps.mean, interval, wording.significant)

    usd = ("USD per M tokens",) if priced else ()
    return Group(
        "Together, 95 % interval",
        ("tokens/s", *usd, "tokens a step"),
        lambda cell: tuple(texts(cell)),
    )


def _comparisons(run: Results) -> tuple[Group, ...]:
    """Of a compared cell: its speed-ups, then TPOT and llmperf's figure of baseline and variant."""
    cells = {
        (cell.test_case, cell.load, cell.variant): cell
        for case in run.summary.cases
        for cell in case.cells
    }
    tpot = of_metric(metrics.TIME_PER_OUTPUT_TOKEN, ("p50",), "")

    def pair(cell: Cell) -> tuple[Cell, Cell]:
        assert cell.comparison is not None
        return cells[cell.test_case, cell.load, cell.comparison.baseline], cell

    def speedups(cell: Cell) -> list[str]:
        found = cell.comparison
        assert found is not None
        by = (found.by_time_per_output_token, found.by_end_to_end, found.by_throughput)
        together = found.cost.interval if found.cost else None
        return [str(answers.speed(interval)) for interval in (*by, together)]

    def published(cell: Cell) -> str:
        return wording.milliseconds(run.published.median(cell))

    ends = ("baseline", "variant")
    return (
        Group("Baseline", ("",), lambda cell: [pair(cell)[0].variant]),
        Group(
            "Speed-up, 95 % interval",
            ("TPOT", "E2E", "throughput of a request", "of all together"),
            speedups,
        ),
        Group("TPOT p50, ms", ends, lambda cell: [tpot.texts(one)[0] for one in pair(cell)]),
        Group("llmperf p50, ms", ends, lambda cell: [published(one) for one in pair(cell)]),
    )


def divergences(run: Results) -> tuple[tuple[str, str, str], ...]:
    """Test case, variant, and where its greedy answer begins to differ, in words."""
    return tuple(
        (
            found.case,
            found.variant,
            f"{found.unit} {found.first} of {found.compared}"
            if found.first
            else f"all {found.compared} {found.unit}s are the same",
        )
        for found in run.divergences
    )
