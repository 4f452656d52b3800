"""The report's tables: which figures stand in them, as they are written."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Final

from benchmark import wording
from benchmark.analysis.crosscheck import Check
from benchmark.analysis.intervals import Interval
from benchmark.analysis.summary import Arm, Case, Percentiles
from benchmark.names import VARIANTS
from benchmark.report.results import Results

_PERCENTILES: Final = ("p50", "p90", "p99")


@dataclass(frozen=True)
class Group:
    """Columns that belong together, and what stands in them for one variant of a test case."""

    title: str
    columns: tuple[str, ...]
    cells: Callable[[Arm], tuple[str, ...]]


@dataclass(frozen=True)
class Table:
    """A table with two lines per test case, Base and SD."""

    title: str
    groups: tuple[Group, ...]


@dataclass(frozen=True)
class Comparison:
    """One line of the table that has one line per test case."""

    name: str
    cells: tuple[str, ...]


PERCENTILES: Final = (
    Table(
        "Latency",
        (
            Group("TPOT, ms", _PERCENTILES, lambda arm: _three(arm.time_per_output_token, 1000)),
            Group("TTFT, ms", _PERCENTILES, lambda arm: _three(arm.ttft, 1000)),
            Group("Inter-chunk, ms", _PERCENTILES, lambda arm: _three(arm.inter_chunk, 1000)),
            Group("E2E, s", _PERCENTILES, lambda arm: _three(arm.end_to_end, 1)),
        ),
    ),
    Table(
        "Requests, throughput and cost",
        (
            Group("Requests", ("sent", "failed"), lambda arm: _requests(arm)),
            Group("Output tokens", ("p50", "per step"), lambda arm: _tokens(arm)),
            Group("Tokens/s of a request", _PERCENTILES, lambda arm: _three(arm.throughput, 1)),
            Group(
                "Together, 95 % interval",
                ("tokens/s", "USD per M tokens"),
                lambda arm: _together(arm),
            ),
        ),
    ),
)


def comparisons(run: Results) -> tuple[Comparison, ...]:
    """Per case: speed-ups by TPOT, E2E and throughput, then TPOT and llmperf's figure of both."""
    return tuple(Comparison(case.name, _comparison(run, case)) for case in run.summary.cases)


@dataclass(frozen=True)
class Checked:
    """One line of the cross-check: a quantity of one variant of a test case."""

    case: str
    variant: str
    figure: str
    ledger: str
    server: str
    apart: str
    agrees: bool


def checked(run: Results) -> tuple[tuple[str, tuple[Checked, ...]], ...]:
    """Per case: what ledger and server both counted. Positions and times are to be seen only."""
    lines = (line for check in run.checks for line in _checked(check))
    return tuple((case, tuple(own)) for case, own in groupby(lines, lambda line: line.case))


def _checked(check: Check) -> Iterator[Checked]:
    for figure in check.figures:
        cut = f" to {figure.ledger + figure.cut:,.0f}" if figure.cut else ""
        yield Checked(
            check.case,
            check.variant,
            figure.name,
            f"{figure.ledger:,.0f}{cut}",
            f"{figure.server:,.0f}",
            f"{figure.disagreement:.2%}",
            figure.agrees,
        )
    if check.positions:
        ledger, server = (
            " ".join(f"{100 * part:.0f}" for part in side)
            for side in zip(*check.positions, strict=True)
        )
        yield Checked(
            check.case, check.variant, "accepted by position, %", ledger, server, "", True
        )
    if check.token_seconds:
        ledger, server = map(wording.milliseconds, check.token_seconds)
        yield Checked(check.case, check.variant, "mean TPOT, ms", ledger, server, "", True)


def divergences(run: Results) -> tuple[tuple[str, str], ...]:
    """Per case: where the greedy answers part, in words."""
    return tuple(
        (
            found.case,
            f"{found.unit} {found.first} of {found.compared}"
            if found.first
            else f"all {found.compared} {found.unit}s are the same",
        )
        for found in run.divergences
    )


def _comparison(run: Results, case: Case) -> tuple[str, ...]:
    intervals = (case.by_time_per_output_token, case.by_end_to_end, case.by_throughput)
    published = (run.published.medians.get((case.name, variant)) for variant in VARIANTS)
    return (
        *map(_interval, intervals),
        *(_three(arm.time_per_output_token, 1000)[0] for arm in case.arms),
        *map(wording.milliseconds, published),
    )


def _interval(interval: Interval | None) -> str:
    if interval is None:
        return wording.MISSING
    return f"{wording.times(interval)} ({wording.span(interval)})"


def _three(sample: Percentiles | None, scale: float) -> tuple[str, ...]:
    if sample is None:
        return (wording.MISSING,) * len(_PERCENTILES)
    values = (sample.p50, sample.p90, sample.p99)
    return tuple(wording.significant(value * scale) for value in values)


def _requests(arm: Arm) -> tuple[str, ...]:
    missing = "" if arm.complete else f" of {arm.expected}"
    return f"{arm.tally.requests}{missing}", str(arm.tally.errors)


def _tokens(arm: Arm) -> tuple[str, ...]:
    return (
        f"{arm.output_tokens.p50:,.0f}" if arm.output_tokens else wording.MISSING,
        f"{arm.steps.mean:.2f}" if arm.steps else wording.MISSING,
    )


def _together(arm: Arm) -> tuple[str, ...]:
    return (
        wording.estimate(
            arm.tokens_per_second, arm.tokens_per_second_interval, wording.significant
        ),
        wording.estimate(
            arm.usd_per_million_output_tokens,
            arm.usd_per_million_output_tokens_interval,
            wording.dollars,
        ),
    )
