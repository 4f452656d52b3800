"""The tables of cells: the figures of each variant in each test case at each load point."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from spectap import metrics, wording
from spectap.analysis.summary import Cell, Overall, Summary
from spectap.analysis.verdicts import Answer, Claim
from spectap.metrics import Metric
from spectap.report import palette, phrases
from spectap.report.view import Columns, Row, Table, grouped

_PERCENTILES: Final = ("p50", "p90", "p99")


@dataclass(frozen=True)
class Measure:
    """Columns of a table of cells, and their texts for the cells of one line."""

    columns: Columns
    texts: Callable[..., Iterable[str]]


def by_class(summary: Summary) -> list[tuple[str, Overall]]:
    """The mean of each class, and each test case that has none, with their names."""
    rows = [
        (wording.count(mean.cases, f"{mean.structure} test case".lstrip()), mean)
        for mean in summary.overall
    ]
    known = {(mean.structure, mean.load, mean.variant) for mean in summary.overall}
    sizes = Counter(case.structure for case in summary.cases if case.structure)
    for case in summary.cases:
        kind = case.structure
        name = f"1 {kind} test case" if sizes[kind] == 1 else wording.short(case.name)
        for cell, comparison in case.compared:
            if comparison.speedup and (kind, cell.load, cell.variant) not in known:
                cost = comparison.cost.interval if comparison.cost else None
                of_cell = kind, cell.load, cell.variant, comparison.baseline
                rows.append((name, Overall(*of_cell, 1, comparison.speedup, cost)))
    return rows


def classes(summary: Summary, title: str = "") -> Table:
    """One speed-up and one cost for each class, variant and load."""
    colours, priced = palette.of(summary.variants), phrases.priced(summary)
    rows = by_class(summary)
    loads = len(summary.loads) > 1
    variants = len({mean.variant for _, mean in rows}) > 1

    def row(name: str, mean: Overall) -> Row:
        estimates = phrases.speed(mean.speed), phrases.cost(mean.cost, priced=priced)
        load = phrases.short_load(mean.load)
        return Row(
            (name, *([load] * loads), *([mean.variant] * variants)),
            tuple((estimate.figure, estimate.bounds) for estimate in estimates),
            colours[mean.variant].role if variants else "",
        )

    return Table(
        title,
        ("prompts", *(["load"] * loads), *(["variant"] * variants)),
        (
            Columns("speed of a request", ("", "95 %")),
            Columns("cost" if priced else "throughput", ("", "95 %")),
        ),
        grouped((name, row(name, mean)) for name, mean in rows),
    )


def tables(summary: Summary) -> Iterator[Table]:
    """Every figure, a line for each cell: single requests, all requests together, comparisons."""
    latencies = [metric for metric in metrics.METRICS if metric.percentiles]
    others = [metric for metric in metrics.METRICS if metric not in latencies]
    by_chunk = [metric for metric in others if metric.unit == "Seconds"]
    rates_and_counts = [metric for metric in others if metric not in by_chunk]
    every = [cell for case in summary.cases for cell in case.cells]
    groups: list[tuple[str, list[Measure], list[Cell]]] = [
        ("Latency", [*map(_distribution, latencies)], every),
        ("Latency, by chunk", [*map(_distribution, by_chunk)], every),
        ("Throughput and tokens of a request", [*map(_distribution, rates_and_counts)], every),
        ("All requests together", [_together(summary, every)], every),
        ("Objectives and load", [*_promised(every)], every if any(_promised(every)) else []),
        ("Speed-ups, 95 % intervals", [_SPEEDUPS], [cell for cell in every if cell.comparison]),
    ]
    for title, measures, cells in groups:
        yield _table(title, measures, [(cell,) for cell in cells], summary)


def overview(summary: Summary) -> Table:
    """The deciding figures: a line for each comparison of two variants, or for each cell."""
    cells = [(case, cell) for case in summary.cases for cell in case.cells]
    names: tuple[str, ...] = ("",)
    lines: list[tuple[Cell, ...]] = [(cell,) for _, cell in cells]
    if summary.compares and len(summary.variants) == 2:
        names = tuple(map(wording.short, summary.variants))
        lines = [(case.baseline_of(cell), cell) for case, cell in cells if cell.comparison]
    every = [cell for _, cell in cells]
    measures = [*_answers(every, summary), *_measured(every, names, summary)]
    return _table("", measures, lines, summary)


def _table(
    title: str, measures: Sequence[Measure], lines: Sequence[tuple[Cell, ...]], summary: Summary
) -> Table:
    """A table with a line for each cell, or for each pair of a baseline and a compared cell."""
    colours = palette.of(summary.variants)
    paired = any(len(cells) > 1 for cells in lines)
    loads = len(summary.loads) > 1 or any(phrases.load_mark(c) for cells in lines for c in cells)

    def row(*cells: Cell) -> Row:
        cell = cells[-1]
        marks = dict.fromkeys(filter(None, map(phrases.load_mark, cells)))
        load = ", ".join((phrases.short_load(cell.load), *marks))
        labels = *([load] * loads), *([wording.short(cell.variant)] * (not paired))
        return Row(
            (wording.short(cell.test_case), *labels),
            tuple(tuple(measure.texts(*cells)) for measure in measures),
            "" if paired else colours[cell.variant].role,
        )

    return Table(
        title,
        ("test case", *(["load"] * loads), *(["variant"] * (not paired))),
        tuple(measure.columns for measure in measures),
        grouped((cells[-1].test_case, row(*cells)) for cells in lines),
    )


def _answers(cells: Sequence[Cell], summary: Summary) -> Iterator[Measure]:
    """Ratios of each compared cell to its baseline; none for a baseline."""
    priced = phrases.priced(summary)

    def texts(*cells: Cell) -> tuple[str, str, str]:
        if (comparison := cells[-1].comparison) is None:
            return "", "", ""
        speed, cost = comparison.speed, comparison.cost
        request = phrases.speed(comparison.speedup)
        together = phrases.cost(cost.interval if cost else None, priced=priced)
        figure = request.figure + _doubt(speed) if speed else "no verdict"
        return figure, request.bounds, together.figure + _doubt(cost)

    if any(cell.comparison for cell in cells):
        names = ("speed", "95 %", "cost" if priced else "throughput")
        yield Measure(Columns("against the baseline", names), texts)


def _doubt(claim: Claim | None) -> str:
    """A question mark where no difference is proven."""
    return "?" if claim and claim.answer is Answer.UNDECIDED else ""


def _measured(cells: Sequence[Cell], names: tuple[str, ...], summary: Summary) -> Iterator[Measure]:
    """Columns of latencies, tokens and cost, then of objectives and errors if there are any."""

    def each(title: str, text: Callable[[Cell], str]) -> Measure:
        return Measure(Columns(title, names), lambda *cells: map(text, cells))

    def good(cell: Cell) -> str:
        if cell.goodput is None:
            return wording.MISSING
        return wording.share(cell.goodput.share, None) + ("" if cell.goodput.met else "!")

    for metric in metrics.METRICS:
        if metric.percentiles:
            p50 = partial(_value, metric, "p50")
            yield each(f"{metric.short} p50, {metric.printed}", p50)
    if any(cell.goodput for cell in cells):
        yield each("goodput", good)
    elif phrases.priced(summary) and len(summary.loads) == 1:
        yield each("USD a M tokens", lambda c: wording.dollars(c.usd_per_million_output_tokens))
    else:
        yield each("tokens/s", lambda cell: wording.significant(cell.tokens_per_second))
    yield Measure(
        Columns("tokens", (_share(cells),)),
        lambda *cells: [f"{cells[-1].steps.mean:.2f}" if cells[-1].steps else wording.MISSING],
    )
    if any(cell.errors for cell in cells):
        yield each("errors", lambda cell: f"{cell.errors}/{cell.requests}")


def _share(cells: Iterable[Cell]) -> str:
    """The unit that tokens are counted by: a step, or an event where steps are in doubt."""
    return "an event" if any(c.steps and c.steps.doubt for c in cells) else "a step"


def _promised(cells: Sequence[Cell]) -> Iterator[Measure]:
    """Columns on objectives and on load marks, where there are any."""

    def goodput(cell: Cell) -> tuple[str, str]:
        if (good := cell.goodput) is None:
            return wording.MISSING, wording.MISSING
        return wording.share(good.share, good.interval), "kept" if good.met else "missed"

    def load(cell: Cell) -> tuple[str, str]:
        late = wording.MISSING if cell.late is None else f"{wording.milliseconds(cell.late)} ms"
        return wording.significant(cell.in_flight), late

    if any(cell.goodput for cell in cells):
        names = ("share of requests", "objectives")
        yield Measure(Columns("Goodput, 95 % interval", names), goodput)
    if any(cell.queued or cell.late is not None for cell in cells):
        yield Measure(Columns("Load", ("in flight", "sent late, p99")), load)


def _distribution(metric: Metric) -> Measure:
    """Columns of all percentiles, and of the interval of a typical round's median where known."""

    def texts(cell: Cell) -> list[str]:
        percentiles = [_value(metric, name, cell) for name in _PERCENTILES]
        if not metric.percentiles:
            return percentiles
        sample = cell.measure(metric)
        typical = sample.typical if sample else None
        ends = (typical.low, typical.high) if typical else ()
        return [*percentiles, "-".join(_text(metric, end) for end in ends) or wording.MISSING]

    interval = ("median, 95 %",) if metric.percentiles else ()
    return Measure(Columns(metric.heading, (*_PERCENTILES, *interval)), texts)


def _value(metric: Metric, percentile: str, cell: Cell) -> str:
    sample = cell.measure(metric)
    return _text(metric, getattr(sample, percentile)) if sample else wording.MISSING


def _text(metric: Metric, value: float) -> str:
    # A number of tokens is whole, unless it lies between two requests' numbers.
    if metric.unit == "Count" and value == int(value):
        return f"{value:,.0f}"
    return wording.significant(value * metric.scale)


def _together(summary: Summary, cells: Sequence[Cell]) -> Measure:
    priced = phrases.priced(summary)

    def texts(cell: Cell) -> Iterator[str]:
        yield f"{cell.errors}/{cell.requests}"
        tokens, usd = cell.tokens_per_second, cell.usd_per_million_output_tokens
        yield phrases.figure(tokens, cell.tokens_per_second_interval, wording.significant)
        if priced:
            bounds = cell.usd_per_million_output_tokens_interval
            yield phrases.figure(usd, bounds, wording.dollars)
        # Every step of a baseline yields one token, so its interval has no width.
        steps = cell.steps
        varied = steps and {size for size, _ in steps.histogram} != {1}
        interval = steps.interval if steps and varied else None
        yield phrases.figure(steps.mean if steps else None, interval, wording.significant)

    usd = ("USD per M tokens",) if priced else ()
    names = ("errors", "tokens/s", *usd, f"tokens {_share(cells)}")
    return Measure(Columns("Together, 95 % interval", names), texts)


def _ratios(cell: Cell) -> tuple[str, ...]:
    of = cell.comparison
    assert of is not None
    cost = of.cost.interval if of.cost else None
    ratios = of.speedup, of.by_time_per_output_token, of.by_end_to_end, cost
    return of.baseline, *(str(phrases.speed(ratio)) for ratio in ratios)


_SPEEDUPS: Final = Measure(
    Columns("times better", ("than", "one request", "TPOT", "E2E", "all together")), _ratios
)
