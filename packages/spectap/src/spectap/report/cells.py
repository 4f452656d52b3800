"""The tables of cells: what each variant measured in each test case, and at each load point."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from spectap import metrics, palette, wording
from spectap.analysis.estimates import intervals
from spectap.analysis.summary import Answer, Case, Cell, Claim, Summary
from spectap.metrics import Metric
from spectap.report import phrases
from spectap.report.view import Columns, Row, Table, grouped


@dataclass(frozen=True)
class Measure:
    """Columns of a table of cells, and their texts for one cell."""

    title: str
    names: tuple[str, ...]
    texts: Callable[[Cell], Iterable[str]]


def tables(summary: Summary) -> Iterator[Table]:
    """The page's tables of one load point: single requests, all together, the comparisons."""
    latencies = [metric for metric in metrics.METRICS if metric.unit == "Seconds"]
    rates_and_counts = [metric for metric in metrics.METRICS if metric.unit != "Seconds"]
    every = [cell for case in summary.cases for cell in case.cells]
    groups: list[tuple[str, list[Measure], list[Cell]]] = [
        ("Latency", [*map(_distribution, latencies)], every),
        ("Throughput and tokens of a request", [*map(_distribution, rates_and_counts)], every),
        ("All requests together", [_together(summary, every), *_promised(every)], every),
        ("Speed-ups, 95 % intervals", [_SPEEDUPS], [cell for cell in every if cell.comparison]),
    ]
    for title, measures, cells in groups:
        rows = [((cell.test_case, cell.variant), cell) for cell in cells]
        yield _table(title, "test case", measures, rows, summary)


def overview(cells: Sequence[Cell], summary: Summary, title: str = "") -> Table:
    """The answers, then what each variant measured: a line for each test case or load point."""
    several = len(summary.loads) > 1
    rows = [
        (
            phrases.short_load(cell.load) if several else wording.short(cell.test_case),
            wording.short(cell.variant),
        )
        for cell in cells
    ]
    measures = [*_answers(cells, summary), *_measured(cells, summary)]
    head = "load" if several else "test case"
    return _table(title, head, measures, zip(rows, cells, strict=True), summary)


def over_loads(case: Case, summary: Summary) -> Table:
    """The overview of one test case at all its load points."""
    title = f"{case.name}, {case.structure}" if case.structure else case.name
    return overview([cell for load in case.loads for cell in case.at(load)], summary, title)


def _table(
    title: str,
    head: str,
    measures: Sequence[Measure],
    rows: Iterable[tuple[tuple[str, str], Cell]],
    summary: Summary,
) -> Table:
    """A line for each cell; each test case is a group. The second label is the variant."""
    colours = palette.of(summary.variants)

    def row(labels: tuple[str, str], cell: Cell) -> Row:
        texts = tuple(tuple(measure.texts(cell)) for measure in measures)
        return Row(labels, texts, colours[cell.variant].role)

    return Table(
        title,
        (head, "variant"),
        tuple(Columns(measure.title, measure.names) for measure in measures),
        grouped((cell.test_case, row(labels, cell)) for labels, cell in rows),
    )


def _answers(cells: Sequence[Cell], summary: Summary) -> Iterator[Measure]:
    """Ratios of each compared cell to its baseline; none for a baseline."""
    priced = phrases.priced(summary)

    def texts(cell: Cell) -> tuple[str, ...]:
        if cell.comparison is None:
            return "", "", "", ""
        speed, cost = cell.comparison.speed, cell.comparison.cost
        request = phrases.speed(cell.comparison.speedup)
        decoding = phrases.speed(cell.comparison.by_time_per_output_token)
        together = phrases.cost(cost.interval if cost else None, priced=priced)
        figure = request.figure + _doubt(speed) if speed else "no verdict"
        return figure, request.bounds, decoding.figure, together.figure + _doubt(cost)

    if any(cell.comparison for cell in cells):
        names = ("speed", "95 %", "decoding", "cost" if priced else "throughput")
        yield Measure("against the baseline", names, texts)


def _doubt(claim: Claim | None) -> str:
    """A question mark where no difference is proven."""
    return "?" if claim and claim.answer is Answer.UNDECIDED else ""


def _measured(cells: Sequence[Cell], summary: Summary) -> Iterator[Measure]:
    """Latencies, tokens, the cost; then objectives, errors and a marked load, where any is."""
    for metric in metrics.METRICS:
        if metric.percentiles:
            title = f"{metric.short} {metric.printed}".strip()
            yield _percentiles(metric, metric.percentiles, title)
    yield _column("tokens/s", "together", lambda cell: wording.significant(cell.tokens_per_second))
    yield _column("tokens", _share(cells), _steps)
    if phrases.priced(summary) and len(summary.loads) == 1:
        yield _column(
            "USD per", "M tokens", lambda cell: wording.dollars(cell.usd_per_million_output_tokens)
        )
    if any(cell.goodput for cell in cells):
        yield _column("", "goodput", _good)
    if any(cell.errors for cell in cells):
        yield _column("", "errors", lambda cell: f"{cell.errors}/{cell.requests}")
    if any(map(phrases.load_mark, cells)):
        yield _column("", "", phrases.load_mark)


def _column(title: str, name: str, text: Callable[[Cell], str]) -> Measure:
    return Measure(title, (name,), lambda cell: [text(cell)])


def _share(cells: Iterable[Cell]) -> str:
    """The name of a count of tokens: an event that is a step is one, too."""
    return "an event" if any(c.steps and c.steps.doubt for c in cells) else "a step"


def _steps(cell: Cell) -> str:
    return f"{cell.steps.mean:.2f}" if cell.steps else wording.MISSING


def _good(cell: Cell) -> str:
    if cell.goodput is None:
        return wording.MISSING
    return wording.share(cell.goodput.share, None) + ("" if cell.goodput.met else "!")


def _promised(cells: Sequence[Cell]) -> Iterator[Measure]:
    """Whether the objectives were kept, and what became of the load; what there is of both."""
    if any(cell.goodput for cell in cells):
        names = ("share of requests", "objectives")
        yield Measure("Goodput, 95 % interval", names, _goodput)
    if any(cell.queued or cell.schedule for cell in cells):
        yield Measure("Load", ("in flight", "sent late, p99", "mark"), _load)


def _goodput(cell: Cell) -> tuple[str, str]:
    if cell.goodput is None:
        return wording.MISSING, wording.MISSING
    share = wording.share(cell.goodput.share, cell.goodput.interval)
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


def _distribution(metric: Metric) -> Measure:
    """All percentiles, and the interval of the median of a typical round where there is one."""
    percentiles = _percentiles(metric, ("p50", "p90", "p99"), metric.heading)
    if not metric.percentiles:
        return percentiles

    def texts(cell: Cell) -> list[str]:
        sample = cell.measure(metric)
        typical = sample.typical if sample else None
        ends = (typical.low, typical.high) if typical else ()
        bounds = "-".join(_value(metric, end) for end in ends) or wording.MISSING
        return [*percentiles.texts(cell), bounds]

    return Measure(metric.heading, (*percentiles.names, "median, 95 %"), texts)


def _value(metric: Metric, value: float) -> str:
    # A number of tokens is whole, unless it lies between two requests' numbers.
    if metric.unit == "Count" and value == int(value):
        return f"{value:,.0f}"
    return wording.significant(value * metric.scale)


def _together(summary: Summary, cells: Sequence[Cell]) -> Measure:
    priced = phrases.priced(summary)

    def texts(cell: Cell) -> Iterator[str]:
        yield f"{cell.errors}/{cell.requests}"
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
    names = ("errors", "tokens/s", *usd, f"tokens {_share(cells)}")
    return Measure("Together, 95 % interval", names, texts)


def _ratios(cell: Cell) -> Iterator[str]:
    """The baseline that a cell is compared with, and each ratio to it."""
    if comparison := cell.comparison:
        yield comparison.baseline
        for interval in (
            comparison.speedup,
            comparison.by_time_per_output_token,
            comparison.by_end_to_end,
            comparison.cost.interval if comparison.cost else None,
        ):
            yield str(phrases.speed(interval))


_SPEEDUPS: Final = Measure(
    "times better", ("than", "one request", "TPOT", "E2E", "all together"), _ratios
)
