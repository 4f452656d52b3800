"""The tables of cells: what each variant measured in each test case, and at each load point."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from spectap import metrics, palette, wording
from spectap.analysis.estimates import intervals
from spectap.analysis.summary import Answer, Case, Cell, Claim, Summary
from spectap.metrics import Metric
from spectap.names import WARM_UP
from spectap.report import phrases
from spectap.report.phrases import Estimate
from spectap.report.results import Results
from spectap.report.view import Columns, Row, Table, grouped

_PERCENTILES: Final = ("p50", "p90", "p99")


@dataclass(frozen=True)
class Measure:
    """Columns of a table of cells, and their texts for one cell."""

    title: str
    names: tuple[str, ...]
    texts: Callable[[Cell], Iterable[str]]
    words: bool = False


def tables(run: Results) -> Iterator[Table]:
    """Every table of one load point: of single requests, of all together, of the comparisons."""
    summary = run.summary
    latencies = [metric for metric in metrics.METRICS if metric.unit == "Seconds"]
    rates_and_counts = [metric for metric in metrics.METRICS if metric.unit != "Seconds"]
    medians = [metric for metric in latencies if metric.percentiles]
    rows = [((case.name, cell.variant), cell) for case in summary.cases for cell in case.cells]
    compared = [(labels, cell) for labels, cell in rows if cell.comparison]
    groups: list[tuple[str, list[Measure]]] = [
        ("Latency", [*map(_all_percentiles, latencies)]),
        ("The median latency of a typical round", [*map(_typical_median, medians)]),
        ("Throughput and tokens of a request", [*map(_all_percentiles, rates_and_counts)]),
        ("All requests together", [_requests(run), _together(summary)]),
    ]
    if promised := [*_promised(summary)]:
        groups.append(("What was promised, and what the load was", promised))
    for title, measures in groups:
        yield _table(title, _HEADS, measures, rows, summary)
    if summary.compares:
        title = f"Speed-ups, and llmperf's inter-token latency {run.published.origin}"
        yield _table(title, _HEADS, [*_speedups(run)], compared, summary)


_HEADS: Final = ("test case", "variant")


def at_each_load(case: Case, summary: Summary) -> Table:
    """One test case at all its load points, for the page."""
    named = [metric for metric in metrics.METRICS if metric.percentiles and metric.printed == "ms"]
    measures = [
        *(_percentiles(metric, ("p50", "p90"), metric.heading) for metric in named),
        *_promised(summary),
        _together(summary),
    ]
    rows = [
        ((phrases.load_points([load]), cell.variant), cell)
        for load in case.loads
        for cell in case.at(load)
    ]
    return _table("At each load point", ("load point", "variant"), measures, rows, summary)


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
    measures += _TOKENS
    if phrases.priced(summary):
        measures.append(_USD)
    measures += _remarkable(cells, errors=True)
    rows = []
    for case in summary.cases:
        # The name of a test case stands beside its first cell, its class beside the second.
        labels = [wording.short(case.name), case.structure and f"  {case.structure}"]
        labels += [""] * len(case.cells)
        rows += [
            ((label, wording.short(cell.variant)), cell)
            for label, cell in zip(labels, case.cells, strict=False)
        ]
    return _table("", ("test case", ""), measures, rows, summary)


def overview_over_loads(case: Case, summary: Summary) -> Table:
    """What a terminal shows of one test case at several load points."""
    latencies = (metrics.TTFT, metrics.TIME_PER_OUTPUT_TOKEN)
    measures = [
        *_answers(case.cells, summary),
        *(
            _percentiles(latency, ("p50", "p90"), f"{latency.short} {latency.printed}")
            for latency in latencies
        ),
        *_TOKENS,
        *_remarkable(case.cells, errors=any(cell.errors for cell in case.cells)),
    ]
    rows = [
        ((phrases.short_load(cell.load), wording.short(cell.variant)), cell)
        for load in case.loads
        for cell in case.at(load)
    ]
    title = f"{case.name}, {case.structure}" if case.structure else case.name
    return _table(title, ("load", ""), measures, rows, summary)


def _table(
    title: str,
    heads: tuple[str, str],
    measures: Sequence[Measure],
    rows: Iterable[tuple[tuple[str, str], Cell]],
    summary: Summary,
) -> Table:
    """A line for each cell; over loads each load is a group, otherwise each test case."""
    colours = palette.of(summary.variants)

    def row(labels: tuple[str, str], cell: Cell) -> Row:
        texts = tuple(tuple(measure.texts(cell)) for measure in measures)
        return Row(labels, texts, colours[cell.variant].role)

    return Table(
        title,
        heads,
        tuple(Columns(measure.title, measure.names, measure.words) for measure in measures),
        grouped(
            (labels[0] if heads[0] == "load point" else cell.test_case, row(labels, cell))
            for labels, cell in rows
        ),
    )


def _answers(cells: Sequence[Cell], summary: Summary) -> Iterator[Measure]:
    """What each compared cell is against its baseline; nothing for a baseline."""
    priced = phrases.priced(summary)

    def speed(cell: Cell) -> tuple[str, str]:
        if cell.comparison is None:
            return "", ""
        if cell.comparison.speed is None:
            return "no verdict", ""
        estimate = phrases.speed(cell.comparison.speed.interval)
        return _doubted(cell.comparison.speed, estimate), estimate.bounds

    def decoding(cell: Cell) -> str:
        if cell.comparison is None:
            return ""
        return phrases.speed(cell.comparison.by_time_per_output_token).figure

    def cost(cell: Cell) -> str:
        if cell.comparison is None:
            return ""
        claim = cell.comparison.cost
        return _doubted(claim, phrases.cost(claim.interval if claim else None, priced=priced))

    compared = [cell.comparison for cell in cells if cell.comparison]
    if compared:
        yield Measure("request speed", ("", "95 %"), speed)
        yield _column("", "decoding", decoding)
    if any(comparison.cost for comparison in compared):
        yield _column(*(("cost of", "a token") if priced else ("times the", "tokens/s")), cost)


def _doubted(claim: Claim | None, estimate: Estimate) -> str:
    """The figure, with a question mark where no difference is proven."""
    return estimate.figure + ("?" if claim and claim.answer is Answer.UNDECIDED else "")


def _column(title: str, name: str, text: Callable[[Cell], str]) -> Measure:
    return Measure(title, (name,), lambda cell: [text(cell)])


def _steps(cell: Cell) -> str:
    return f"{cell.steps.mean:.2f}" if cell.steps else wording.MISSING


_TOKENS: Final = (
    _column("tokens/s", "together", lambda cell: wording.significant(cell.tokens_per_second)),
    _column("tokens", "a step", _steps),
)
_USD: Final = _column(
    "USD per", "M tokens", lambda cell: wording.dollars(cell.usd_per_million_output_tokens)
)


def _remarkable(cells: Sequence[Cell], *, errors: bool) -> Iterator[Measure]:
    """Objectives, errors and what is wrong with the load, where there is any."""
    if any(cell.goodput for cell in cells):
        yield _column("", "goodput", _good)
    if errors:
        yield _column("", "errors", lambda cell: f"{cell.errors}/{cell.requests}")
    if any(map(phrases.load_letters, cells)):
        yield _column("", "", phrases.load_letters)


def _good(cell: Cell) -> str:
    if cell.goodput is None:
        return wording.MISSING
    return f"{100 * cell.goodput.share:.0f} %" + ("" if cell.goodput.met else "!")


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
        # Every step of a baseline yields one token, so its interval has no width.
        steps = cell.steps
        varied = steps and {size for size, _ in steps.histogram} != {1}
        interval = steps.interval if steps and varied else None
        yield intervals.estimate(steps.mean if steps else None, interval, wording.significant)

    usd = ("USD per M tokens",) if priced else ()
    return Measure("Together, 95 % interval", ("tokens/s", *usd, "tokens a step"), texts)


def _speedups(run: Results) -> Iterator[Measure]:
    """A compared cell's speed-ups, then TPOT and llmperf's figure of baseline and variant."""
    cells = {
        (cell.test_case, cell.load, cell.variant): cell
        for case in run.summary.cases
        for cell in case.cells
    }
    tpot = _percentiles(metrics.TIME_PER_OUTPUT_TOKEN, ("p50",), "")

    def pair(cell: Cell) -> tuple[Cell, Cell]:
        assert cell.comparison is not None
        return cells[cell.test_case, cell.load, cell.comparison.baseline], cell

    def ratios(cell: Cell) -> Iterator[str]:
        assert cell.comparison is not None
        for interval in (
            cell.comparison.by_time_per_output_token,
            cell.comparison.by_end_to_end,
            cell.comparison.cost.interval if cell.comparison.cost else None,
        ):
            yield str(phrases.speed(interval))

    ends = ("baseline", "variant")
    yield Measure("Baseline", ("",), lambda cell: [pair(cell)[0].variant], words=True)
    names = ("TPOT", "E2E", "of all together")
    yield Measure("Speed-up, 95 % interval", names, ratios)
    yield Measure(
        "TPOT p50, ms", ends, lambda cell: [text for end in pair(cell) for text in tpot.texts(end)]
    )
    yield Measure(
        "llmperf p50, ms",
        ends,
        lambda cell: [wording.milliseconds(run.published.median(end)) for end in pair(cell)],
    )
