"""What one cell shows by itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import numpy as np

from benchmark import metrics
from benchmark.analysis import claims, stopping, units
from benchmark.analysis.estimate import Estimate
from benchmark.analysis.intervals import Interval
from benchmark.analysis.summary import Cell, Percentiles, Steps
from benchmark.config import Cost, Load
from benchmark.record import Record

_ERROR_WIDTH: Final = 80


def cell(
    case: str,
    variant: str,
    records: Sequence[Record],
    *,
    alpha: float,
    load: Load | None = None,
    cost: Cost | None = None,
    rounds: int = 0,
    repeated_errors: int = 0,
) -> Cell:
    """The cell of these records. ``rounds`` is how many a complete one has, 0 if nobody knows.

    ``alpha`` is the level of its intervals.
    """
    good = [record for record in records if record.succeeded]
    parts = [own for (own,) in units.units(good, planned=load is not None)]
    errors = [(r.error or f"HTTP {r.status}")[:_ERROR_WIDTH] for r in records if not r.succeeded]
    speed = metrics.tokens_per_second(records, load.concurrency if load else None)
    speeds = _around(speed, records, alpha)
    missing = stopping.missing(records, load.requests, rounds) if load else 0
    usd = cost.usd_per_million_seconds if cost and not missing else None
    return Cell(
        variant=variant,
        test_case=case,
        load=load.point if load else None,
        requests=len(records),
        errors=len(errors),
        most_frequent_error=Counter(errors).most_common(1)[0][0] if errors else None,
        repeated_errors=repeated_errors,
        expected=load.requests * rounds if load else None,
        missing=missing,
        measures=dict(_measures(good, parts, alpha)),
        tokens_per_second=speed,
        tokens_per_second_interval=speeds,
        usd_per_million_output_tokens=usd / speed if usd and speed else None,
        usd_per_million_output_tokens_interval=speeds.inverse.scaled(usd)
        if usd and speeds
        else None,
        steps=_steps(good, parts, alpha),
    )


def _measures(
    records: Sequence[Record], parts: Iterable[Sequence[Record]], alpha: float
) -> Iterator[tuple[str, Percentiles]]:
    for metric in metrics.METRICS:
        values = [value for record in records for value in metric.values(record)]
        if values:
            p50, p90, p99 = (float(value) for value in np.percentile(values, (50, 90, 99)))
            typical = _interval(claims.typical(metric.values, parts), alpha)
            yield metric.name, Percentiles(len(values), p50, p90, p99, typical)


def _around(speed: float | None, records: Sequence[Record], alpha: float) -> Interval | None:
    """The interval of the tokens a second of all requests together, which are ``speed``."""
    rounds = [own for (own,) in units.rounds(records).values()]
    sums = [(metrics.served_tokens(own), metrics.request_time(own)) for own in rounds]
    interval = _interval(claims.ratio_of_sums(sums), alpha)
    return interval.scaled(speed / interval.point) if speed and interval else None


def _steps(
    records: Iterable[Record], parts: Iterable[Sequence[Record]], alpha: float
) -> Steps | None:
    sizes: Counter[int] = Counter()
    for record in records:
        sizes.update(_step_sizes(record))
    if not sizes:
        return None
    by_part = [[n for record in part for n in _step_sizes(record)] for part in parts]
    interval = _interval(claims.ratio_of_sums([(sum(n), len(n)) for n in by_part]), alpha)
    tokens = sum(size * count for size, count in sizes.items())
    return Steps(tokens / sizes.total(), interval, tuple(sorted(sizes.items())))


def _step_sizes(record: Record) -> Iterable[int]:
    return (tokens for _, tokens in record.chunks[1:]) if record.per_chunk else ()


def _interval(estimate: Estimate | None, alpha: float) -> Interval | None:
    return estimate.interval(alpha) if estimate else None
