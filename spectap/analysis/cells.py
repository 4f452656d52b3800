"""What one cell shows by itself."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from statistics import fmean, variance
from typing import Final

import numpy as np
from scipy.special import betaincinv, stdtrit

from spectap import metrics
from spectap.analysis import contrasts, grouping, saturation, stopping
from spectap.analysis.estimates.estimate import Estimate
from spectap.analysis.estimates.intervals import Interval
from spectap.analysis.grouping import CellKey
from spectap.analysis.summary import Cell, Goodput, Percentiles, Steps
from spectap.config import Cost, Objectives
from spectap.load_points import FEWEST_ROUNDS, LoadPoint
from spectap.metrics import Metric
from spectap.record import Record

_ERROR_WIDTH: Final = 80
_PROMISED: Final = 0.9
"""The share of the requests that each objective is about: its limit is one of the p90."""

_MILLISECOND: Final = 0.001


def cell(
    key: CellKey,
    records: Sequence[Record],
    *,
    alpha: float,
    point: LoadPoint | None = None,
    batch: int | None = None,
    objectives: Objectives | None = None,
    cost: Cost | None = None,
    rounds: int = 0,
    repeated_errors: int = 0,
) -> Cell:
    """The cell of these records. ``rounds`` is how many a complete one has, 0 if nobody knows.

    ``alpha`` is the level of its intervals. ``batch`` is how many sequences the variant decodes
    together.
    """
    good = [record for record in records if record.succeeded]
    parts = [own for (own,) in grouping.units(good, planned=rounds > 0)]
    errors = [(r.error or f"HTTP {r.status}")[:_ERROR_WIDTH] for r in records if not r.succeeded]
    speed, speeds = _speed(records, point), _interval(tokens_per_second(records, point), alpha)
    requests = point.requests if point else 0
    missing = stopping.missing(records, requests, rounds)
    in_flight = _in_flight(records)
    # In an open loop it is the rate that says how much a node does for its price.
    priced = cost is not None and missing == 0 and not (point and point.open)
    usd = cost.usd_per_million_seconds if cost and priced else None
    return Cell(
        variant=key.variant,
        test_case=key.case,
        load=point,
        requests=len(records),
        errors=len(errors),
        most_frequent_error=Counter(errors).most_common(1)[0][0] if errors else None,
        repeated_errors=repeated_errors,
        expected=requests * rounds if rounds else None,
        missing=missing,
        measures=dict(_measures(good, parts, alpha)),
        tokens_per_second=speed,
        tokens_per_second_interval=speeds,
        usd_per_million_output_tokens=usd / speed if usd and speed else None,
        usd_per_million_output_tokens_interval=speeds.inverse.scaled(usd)
        if usd and speeds
        else None,
        tools=any(record.tools for record in good),
        steps=_steps(good, parts, alpha),
        in_flight=in_flight,
        goodput=goodput(records, objectives, alpha) if objectives else None,
        schedule=saturation.schedule(records, point.rate if point else None),
        queued=_beyond_batch(point, in_flight, batch) or saturation.queued(records),
    )


def _in_flight(records: Sequence[Record]) -> float | None:
    occupied = metrics.occupied_time(records)
    return metrics.request_time(records) / occupied if occupied else None


def _beyond_batch(point: LoadPoint | None, in_flight: float | None, batch: int | None) -> bool:
    if batch is None or point is None:
        return False
    load = in_flight if point.open else point.concurrency
    return load is not None and load > batch


def _measures(
    records: Sequence[Record], parts: Iterable[Sequence[Record]], alpha: float
) -> Iterator[tuple[str, Percentiles]]:
    for metric in metrics.METRICS:
        values = [value for record in records for value in metric.values(record)]
        if values:
            p50, p90, p99 = (float(value) for value in np.percentile(values, (50, 90, 99)))
            typical = _interval(contrasts.typical(metric.values, parts), alpha)
            yield metric.name, Percentiles(len(values), p50, p90, p99, typical)


def tokens_per_second(records: Sequence[Record], point: LoadPoint | None) -> Estimate | None:
    """Of all requests together, with the round as the unit; None where there are too few.

    In a closed loop what the service does while as many requests are in flight as it has. In an
    open loop what it did: the rate's tokens, less the time in which the last answers end, and less
    still where it does not keep up.
    """
    sums, speed = _sums(records, point), _speed(records, point)
    estimate = contrasts.ratio_of_sums(sums)
    return replace(estimate, log=math.log(speed)) if estimate and speed else None


def _speed(records: Sequence[Record], point: LoadPoint | None) -> float | None:
    if not (point and point.open):
        return metrics.tokens_per_second(records, point.concurrency if point else None)
    tokens, seconds = map(sum, zip(*_sums(records, point), strict=True)) if records else (0, 0.0)
    return tokens / seconds if tokens and seconds else None


def _sums(records: Sequence[Record], point: LoadPoint | None) -> list[tuple[int, float]]:
    """Tokens and seconds of each round."""
    rounds = [own for (own,) in grouping.rounds(records).values()]
    if point and point.rate is not None:
        return [
            (metrics.served_tokens(own), metrics.open_loop_time(own, point.rate)) for own in rounds
        ]
    return [(metrics.served_tokens(own), metrics.request_time(own)) for own in rounds]


def tokens_per_step(parts: Iterable[Sequence[Record]]) -> Estimate | None:
    """Over all steps of rounds or blocks; None where they are too few, or show no steps."""
    by_part = [[n for record in part for n in _step_sizes(record)] for part in parts]
    return contrasts.ratio_of_sums([(sum(n), len(n)) for n in by_part])


def _steps(
    records: Iterable[Record], parts: Iterable[Sequence[Record]], alpha: float
) -> Steps | None:
    sizes: Counter[int] = Counter()
    for record in records:
        sizes.update(_step_sizes(record))
    if not sizes:
        return None
    interval = _interval(tokens_per_step(parts), alpha)
    tokens = sum(size * count for size, count in sizes.items())
    return Steps(tokens / sizes.total(), interval, tuple(sorted(sizes.items())))


def _step_sizes(record: Record) -> Iterable[int]:
    return (tokens for _, tokens in record.chunks[1:]) if record.shows_steps else ()


def _interval(estimate: Estimate | None, alpha: float) -> Interval | None:
    return estimate.interval(alpha) if estimate else None


def goodput(records: Sequence[Record], objectives: Objectives, alpha: float) -> Goodput | None:
    """The share of all requests that succeeded within every limit; None without requests.

    A limit holds where the request has no such figure: an answer of one token has no time per
    output token. ``alpha`` is the level of the interval.
    """
    if not records:
        return None
    limits = tuple(_limits(objectives))
    by_round = [_good(own, limits) for (own,) in grouping.rounds(records).values()]
    return Goodput(
        share=fmean(_good(records, limits)),
        interval=share_interval(by_round, grouping.in_flight(records), alpha),
        met=all(fmean(_good(records, [limit])) >= _PROMISED for limit in limits),
    )


def share_interval(
    rounds: Sequence[Sequence[bool]], in_flight: int, alpha: float
) -> tuple[float, float] | None:
    """The interval of a share, from whether each request of each round is good.

    It is that of Korn and Graubard (Survey Methodology 24, 1998): Clopper's and Pearson's for as
    many independent requests as these are worth. They are worth less the more whole rounds differ,
    and never more than there were waves: the requests ``in_flight`` together share every step.
    None for fewer than ``FEWEST_ROUNDS`` rounds.
    """
    if len(rounds) < FEWEST_ROUNDS:
        return None
    requests = sum(map(len, rounds))
    share = sum(map(sum, rounds)) / requests
    worth = min(requests / in_flight, _worth(rounds, share, alpha))
    good = share * worth
    low = betaincinv(good, worth - good + 1, alpha / 2) if share > 0 else 0.0
    high = betaincinv(good + 1, worth - good, 1 - alpha / 2) if share < 1 else 1.0
    return float(low), float(high)


def _worth(rounds: Sequence[Sequence[bool]], share: float, alpha: float) -> float:
    """How many independent requests have the scatter that the rounds' shares have."""
    requests, count = sum(map(len, rounds)), len(rounds)
    # What each round adds to the share, beyond its part of it (a ratio of two sums).
    excess = [(sum(own) - share * len(own)) * count / requests for own in rounds]
    scatter = variance(excess) / count
    if scatter == 0:
        return float(requests)
    # The scatter is known from the rounds alone, which are fewer than the requests.
    sureness = stdtrit(requests - 1, 1 - alpha / 2) / stdtrit(count - 1, 1 - alpha / 2)
    return float(share * (1 - share) / scatter * sureness**2)


def _limits(objectives: Objectives) -> Iterator[tuple[Metric, float]]:
    """Each figure that has a limit, with that limit in seconds."""
    for metric, milliseconds in (
        (metrics.TTFT, objectives.ttft_p90_ms),
        (metrics.TIME_PER_OUTPUT_TOKEN, objectives.tpot_p90_ms),
        (metrics.END_TO_END_LATENCY, objectives.e2e_p90_ms),
    ):
        if milliseconds is not None:
            yield metric, milliseconds * _MILLISECOND


def _good(records: Iterable[Record], limits: Sequence[tuple[Metric, float]]) -> list[bool]:
    """Whether each request succeeded within the limits."""
    return [
        record.succeeded
        and all(value <= limit for metric, limit in limits for value in metric.values(record))
        for record in records
    ]
