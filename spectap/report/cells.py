"""The tables of cells: what each variant measured in each test case, and at each load point."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from spectap import metrics, palette, wording
from spectap.analysis.estimates import intervals
from spectap.analysis.estimates.intervals import Interval
from spectap.analysis.summary import Answer, Case, Cell, Claim, Comparison, Summary
from spectap.metrics import Metric
from spectap.names import WARM_UP
from spectap.report import phrases
from spectap.report.phrases import Estimate
from spectap.report.results import Results
from spectap.report.view import Columns, Row, Table

_PERCENTILES: Final = ("p50", "p90", "p99")


@dataclass(frozen=True)
class Measure:
    """Columns of a table of cells, and their texts for one cell."""

    title: str
    names: tuple[str, ...]
    texts: Callable[[Cell], Iterable[str]]
    words: bool = False


def tables(run: Results) -> tuple[Table, ...]:
    """Every table of one load point: of single requests, of all together, of the comparisons."""
    summary = run.summary
    latencies = [metric for metric in metrics.METRICS if metric.unit == "Seconds"]
    others = [metric for metric in metrics.METRICS if metric.unit != "Seconds"]
    medians = [metric for metric in latencies if metric.percentiles]
    groups = [
        ("Latency", map(_all_percentiles, latencies)),
        ("The median latency of a typical round", map(_typical_median, medians)),
        ("Throughput and tokens of a request", map(_all_percentiles, others)),
        ("All requests together", (_requests(run), _together(summary))),
    ]
    if promised := [*_promised(summary)]:
        groups.append(("What was promised, and what the load was", promised))
    every = [(case.name, case.cells) for case in summary.cases]
    every_table = [_table(title, measures, every, summary) for title, measures in groups]
    compared = [(case.name, [cell for cell, _ in case.compared]) for case in summary.cases]
    if summary.compares:
        title = f"Speed-ups, and llmperf's inter-token latency {run.published.origin}"
        every_table.append(_table(title, _speedups(run), compared, summary))
    return tuple(every_table)


def at_each_load(case: Case, summary: Summary) -> Table:
    """One test case at all its load points, for the page."""
    named = [metric for metric in metrics.METRICS if metric.percentiles and metric.printed == "ms"]
    measures = [
        *(_percentiles(metric, ("p50", "p90"), metric.heading) for metric in named),
        *_promised(summary),
        _together(summary),
    ]
    rows = [(phrases.load_points([load]), case.at(load)) for load in case.loads]
    return _table("At each load point", measures, rows, summary, head="load point")


def overview(summary: Summary) -> Table:
    """What a terminal shows of one load point: the answers, then what each variant measured."""
    cells = [cell for case in summary.cases for cell in case.cells]
    measures = [*_answers(cells, summary)]
    for metric in metrics.METRICS:
        if metric.percentiles:
            # The page has those between.
            ends = dict.fromkeys((metric.percentiles[0], metric.percentiles[-1]))
            title = f"{metric.short} {metric.printed}".strip()
            measures.append(_percentiles(metric, tuple(ends), title))
    measures += [_TOKENS_PER_SECOND, _TOKENS_PER_STEP]
    if phrases.priced(summary):
        measures.append(_USD)
    measures += _remarkable(cells, errors=True)
    groups = []
    for case in summary.cases:
        labels = [wording.short(case.name), case.structure and f"  {case.structure}"]
        labels += [""] * len(case.cells)
        groups.append(
            [
                ((label, wording.short(cell.variant)), cell)
                for label, cell in zip(labels, case.cells, strict=False)
            ]
        )
    return _of_cells("", ("test case", ""), measures, groups, summary)


def overview_over_loads(case: Case, summary: Summary) -> Table:
    """What a terminal shows of one test case at several load points."""
    latencies = (metrics.TTFT, metrics.TIME_PER_OUTPUT_TOKEN)
    measures = [
        *_answers(case.cells, summary),
        *(_percentiles(one, ("p50", "p90"), f"{one.short} {one.printed}") for one in latencies),
        _TOKENS_PER_SECOND,
        _TOKENS_PER_STEP,
        *_remarkable(case.cells, errors=any(cell.errors for cell in case.cells)),
    ]
    rows = [
        ((phrases.short_load(cell.load), wording.short(cell.variant)), cell)
        for load in case.loads
        for cell in case.at(load)
    ]
    return _of_cells("", ("load", ""), measures, [rows], summary)


def _table(
    title: str,
    measures: Iterable[Measure],
    groups: Iterable[tuple[str, Sequence[Cell]]],
    summary: Summary,
    head: str = "test case",
) -> Table:
    labelled = [[((name, cell.variant), cell) for cell in cells] for name, cells in groups]
    return _of_cells(title, (head, "variant"), [*measures], labelled, summary)


def _of_cells(
    title: str,
    heads: tuple[str, str],
    measures: Sequence[Measure],
    groups: Iterable[Iterable[tuple[tuple[str, str], Cell]]],
    summary: Summary,
) -> Table:
    colours = palette.of(summary.variants)
    return Table(
        title,
        heads,
        tuple(Columns(measure.title, measure.names, measure.words) for measure in measures),
        tuple(
            tuple(
                Row(
                    labels,
                    tuple(tuple(measure.texts(cell)) for measure in measures),
                    colours[cell.variant].role,
                )
                for labels, cell in group
            )
            for group in groups
        ),
    )


def _answers(cells: Sequence[Cell], summary: Summary) -> Iterator[Measure]:
    """What each compared cell is against its baseline."""
    compared = [cell.comparison for cell in cells if cell.comparison]
    priced = phrases.priced(summary)

    def measure(
        title: str, names: tuple[str, ...], texts: Callable[[Comparison], Sequence[str]]
    ) -> Measure:
        none = ("",) * len(names)
        return Measure(
            title, names, lambda cell: texts(cell.comparison) if cell.comparison else none
        )

    def decoding(comparison: Comparison) -> tuple[str, ...]:
        return (phrases.speed(comparison.by_time_per_output_token).figure,)

    def cost(comparison: Comparison) -> tuple[str, ...]:
        claim = comparison.cost
        estimate = phrases.cost(claim.interval if claim else None, priced=priced)
        return (_doubted(claim, estimate).figure,)

    if compared:
        yield measure("request speed", ("", "95 %"), _request_speed)
        yield measure("", ("decoding",), decoding)
    if any(comparison.cost for comparison in compared):
        title, name = ("cost of", "a token") if priced else ("times the", "tokens/s")
        yield measure(title, (name,), cost)


def _request_speed(comparison: Comparison) -> tuple[str, str]:
    if comparison.speed is None:
        return "no verdict", ""
    estimate = _doubted(comparison.speed, phrases.speed(comparison.speed.interval))
    return estimate.figure, estimate.bounds


def _doubted(claim: Claim | None, estimate: Estimate) -> Estimate:
    """The estimate with a question mark where no difference is proven."""
    if claim is None:
        return Estimate(wording.MISSING)
    mark = "?" if claim.answer is Answer.UNDECIDED else ""
    return Estimate(f"{estimate.figure}{mark}", estimate.bounds)


def _good(cell: Cell) -> str:
    if cell.goodput is None:
        return wording.MISSING
    return f"{100 * cell.goodput.share:.0f} %" + ("" if cell.goodput.met else "!")


_TOKENS_PER_SECOND: Final = Measure(
    "tokens/s", ("together",), lambda cell: [wording.significant(cell.tokens_per_second)]
)
_TOKENS_PER_STEP: Final = Measure(
    "tokens",
    ("a step",),
    lambda cell: [f"{cell.steps.mean:.2f}" if cell.steps else wording.MISSING],
)
_USD: Final = Measure(
    "USD per",
    ("M tokens",),
    lambda cell: [wording.dollars(cell.usd_per_million_output_tokens)],
)


def _remarkable(cells: Sequence[Cell], *, errors: bool) -> Iterator[Measure]:
    """Objectives, errors and what is wrong with the load, where there is any."""
    if any(cell.goodput for cell in cells):
        yield Measure("", ("goodput",), lambda cell: [_good(cell)])
    if errors:
        yield Measure("", ("errors",), lambda cell: [f"{cell.errors}/{cell.requests}"])
    if any(map(phrases.load_letters, cells)):
        yield Measure("", ("",), lambda cell: [phrases.load_letters(cell)])


def _promised(summary: Summary) -> Iterator[Measure]:
    """Whether the objectives were kept, and what became of the load; what there is of both."""
    cells = [cell for case in summary.cases for cell in case.cells]
    if any(cell.goodput for cell in cells):
        names = ("share of requests", "objectives")
        yield Measure("Goodput, 95 % interval", names, _goodput)
    if any(cell.queued or cell.schedule for cell in cells):
        yield Measure("Load", ("in flight", "sent late, p99", "mark"), _load)


def _goodput(cell: Cell) -> tuple[str, str]:
    if cell.goodput is None:
        return wording.MISSING, wording.MISSING
    share = phrases.rate(cell.goodput.share, cell.goodput.interval)
    return share, "kept" if cell.goodput.met else "missed"


def _load(cell: Cell) -> tuple[str, ...]:
    late = f"{wording.milliseconds(cell.schedule.p99)} ms" if cell.schedule else wording.MISSING
    return wording.significant(cell.in_flight), late, phrases.load_mark(cell) or wording.MISSING


def _percentiles(metric: Metric, percentiles: tuple[str, ...], title: str) -> Measure:
    def texts(cell: Cell) -> list[str]:
        sample = cell.measure(metric)
        return [
            wording.MISSING if sample is None else _value(metric, getattr(sample, percentile))
            for percentile in percentiles
        ]

    return Measure(title, percentiles, texts)


def _all_percentiles(metric: Metric) -> Measure:
    return _percentiles(metric, _PERCENTILES, metric.heading)


def _typical_median(metric: Metric) -> Measure:
    """The bounds alone: the point of a typical round is not quite the p50 of all requests."""

    def texts(cell: Cell) -> list[str]:
        sample = cell.measure(metric)
        if sample is None or sample.typical is None:
            return [wording.MISSING]
        low, high = (_value(metric, bound) for bound in (sample.typical.low, sample.typical.high))
        return [f"{low}-{high}"]

    return Measure(metric.heading, ("95 % interval",), texts)


def _value(metric: Metric, value: float) -> str:
    # A number of tokens is whole, unless it lies between two requests' numbers.
    if metric.unit == "Count" and value == int(value):
        return f"{value:,.0f}"
    return wording.significant(value * metric.scale)


def _requests(run: Results) -> Measure:
    rounds = defaultdict(set)
    for record in run.records:
        if record.round > WARM_UP:
            rounds[record.case, record.variant].add(record.round)

    def texts(cell: Cell) -> list[str]:
        expected = "" if cell.complete else f" of {cell.expected}"
        measured = len(rounds[cell.test_case, cell.variant])
        return [str(measured), f"{cell.requests}{expected}", str(cell.errors)]

    return Measure("Measured", ("rounds", "requests", "failed"), texts)


def _together(summary: Summary) -> Measure:
    priced = phrases.priced(summary)

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
    return Measure("Together, 95 % interval", ("tokens/s", *usd, "tokens a step"), texts)


def _speedups(run: Results) -> Iterator[Measure]:
    """Of a compared cell: its speed-ups, then TPOT and llmperf's figure of baseline and variant."""
    cells = {
        (cell.test_case, cell.load, cell.variant): cell
        for case in run.summary.cases
        for cell in case.cells
    }
    tpot = _percentiles(metrics.TIME_PER_OUTPUT_TOKEN, ("p50",), "")

    def pair(cell: Cell) -> tuple[Cell, Cell]:
        assert cell.comparison is not None
        return cells[cell.test_case, cell.load, cell.comparison.baseline], cell

    def ratios(cell: Cell) -> list[str]:
        comparison = cell.comparison
        assert comparison is not None
        together: Interval | None = comparison.cost.interval if comparison.cost else None
        single = (
            comparison.by_time_per_output_token,
            comparison.by_end_to_end,
            comparison.by_throughput,
        )
        return [str(phrases.speed(interval)) for interval in (*single, together)]

    ends = ("baseline", "variant")
    yield Measure("Baseline", ("",), lambda cell: [pair(cell)[0].variant], words=True)
    names = ("TPOT", "E2E", "throughput of a request", "of all together")
    yield Measure("Speed-up, 95 % interval", names, ratios)
    yield Measure(
        "TPOT p50, ms", ends, lambda cell: [text for end in pair(cell) for text in tpot.texts(end)]
    )
    yield Measure(
        "llmperf p50, ms",
        ends,
        lambda cell: [wording.milliseconds(run.published.median(end)) for end in pair(cell)],
    )
