"""Makes one cell by itself: its figures and its goodput."""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import chain
from statistics import fmean, variance
from typing import Final

import numpy as np
from scipy.special import stdtrit

from spectap import metrics
from spectap.analysis import contrasts, grouping, loads, stopping
from spectap.analysis.estimate import Estimate, Interval
from spectap.analysis.grouping import CellKey, Plan
from spectap.analysis.proportions import clopper_pearson
from spectap.analysis.summary import Cell, Doubt, Goodput, Percentiles, Steps
from spectap.inputs.config import Objectives
from spectap.inputs.load_points import FEWEST_ROUNDS, LoadPoint
from spectap.metrics import Metric
from spectap.records.record import Record

_ERROR_WIDTH: Final = 80
_PROMISED: Final = 0.9  # of the requests: each objective is a limit of the p90


def cell(
    key: CellKey,
    plan: Plan,
    records: Sequence[Record],
    billed: Sequence[Record],
    *,
    repeated_errors: int = 0,
    confirmed: bool | None = None,
) -> Cell:
    """Summarises the records of one cell.

    ``billed`` adds the failed attempts that were measured again: totals over all requests include
    them. ``confirmed`` says whether the server's own counts show that an event is a step; None
    without such counts.
    """
    point, rounds, alpha = plan.points[key.load], plan.rounds[key.point], plan.alpha
    good = [record for record in records if record.succeeded]
    # Too few for an interval are one part, of which there is none either.
    parts = [of_unit for (of_unit,) in grouping.units(good, planned=rounds > 0)] or [good]
    measures = {}
    for metric in metrics.METRICS:
        by_part = [[*chain.from_iterable(map(metric.values, part))] for part in parts]
        if values := [*chain.from_iterable(by_part)]:
            p50, p90, p99 = (float(value) for value in np.percentile(values, (50, 90, 99)))
            typical = _interval(contrasts.typical(by_part), alpha)
            measures[metric.name] = Percentiles(len(values), p50, p90, p99, typical)
    errors = [(r.error or f"HTTP {r.status}")[:_ERROR_WIDTH] for r in records if not r.succeeded]
    steps = None
    if sizes := Counter(chain.from_iterable(map(_step_sizes, good))):
        mean = sum(size * count for size, count in sizes.items()) / sizes.total()
        interval, histogram = _interval(tokens_per_step(parts), alpha), tuple(sorted(sizes.items()))
        steps = Steps(mean, interval, histogram, _doubt(confirmed, sizes))
        if steps.doubt:
            measures.pop(metrics.TOKENS_PER_STEP.name, None)
    speed, speeds = _speed(billed, point), _interval(tokens_per_second(billed, point), alpha)
    requests = point.requests if point else 0
    missing = stopping.missing(records, requests, rounds)
    in_flight = metrics.in_flight(records)
    # In an open loop it is the rate that says how much a node does for its price.
    priced = missing == 0 and not (point and point.open)
    usd = plan.cost.usd_per_million_seconds if plan.cost and priced else None
    concurrent = None if point is None else in_flight if point.open else point.concurrency
    late, lagging = loads.lateness(records, point.rate if point else None)
    batch = plan.batches.get(key.variant)
    full = batch is not None and concurrent is not None and concurrent > batch
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
        measures=measures,
        tokens_per_second=speed,
        tokens_per_second_interval=speeds,
        usd_per_million_output_tokens=usd / speed if usd and speed else None,
        usd_per_million_output_tokens_interval=speeds.inverse.scaled(usd)
        if usd and speeds
        else None,
        tools=any(record.tools for record in good),
        model=max((record.model for record in good), default=""),
        uncounted=sum(record.uncounted for record in good),
        hidden_tokens=fmean([record.hidden_tokens for record in good] or [0]),
        characters_per_token=_characters_per_token(good),
        steps=steps,
        sent_again=_sent_again(records),
        in_flight=in_flight,
        goodput=goodput(records, plan.objectives, alpha) if plan.objectives else None,
        late=late,
        lagging=lagging,
        queued=full or loads.queued(records),
        lag=sum(record.lag for record in records) / (metrics.request_time(records) or 1.0),
    )


def tokens_per_second(records: Sequence[Record], point: LoadPoint | None) -> Estimate | None:
    """The speed of all requests together, with the round as the unit; None for too few rounds.

    In a closed loop it is the speed while the load has all its requests in flight. In an open loop
    it is the speed that was reached: the rate's tokens by the time that they took, with the time in
    which the last answers end.
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
    """Tokens and seconds of each round, or launch."""

    def seconds(of_unit: Sequence[Record]) -> float:
        if point and point.rate is not None:
            by_round = grouping.rounds(of_unit, by=grouping.round_of).values()
            return sum(metrics.open_loop_time(of_round, point.rate) for (of_round,) in by_round)
        return metrics.request_time(of_unit)

    by_unit = [of_unit for (of_unit,) in grouping.rounds(records).values()]
    return [(metrics.served_tokens(of_unit), seconds(of_unit)) for of_unit in by_unit]


def _doubt(confirmed: bool | None, sizes: Iterable[int]) -> Doubt | None:
    if confirmed is not None:
        return None if confirmed else Doubt.CONTRADICTED
    # An event of one token is not several steps.
    return None if set(sizes) == {1} else Doubt.UNCONFIRMED


def _sent_again(records: Sequence[Record]) -> float:
    prompts = Counter(record.prompt for record in records if record.prompt)
    if not prompts or all(record.cached_tokens == 0 for record in records):
        return 0.0
    return prompts.total() / len(prompts)


def _characters_per_token(records: Sequence[Record]) -> float | None:
    texts = [r for r in records if r.characters and r.output_tokens and not r.hidden_tokens]
    tokens = metrics.served_tokens(texts)
    return sum(record.characters or 0 for record in texts) / tokens if tokens else None


def tokens_per_step(parts: Iterable[Sequence[Record]]) -> Estimate | None:
    """Tokens per step over all steps; None for too few units, or where no step is seen."""
    return contrasts.ratio_of_sums([steps_of(unit) for unit in parts])


def steps_of(records: Iterable[Record]) -> tuple[int, int]:
    sizes = [_step_sizes(record) for record in records if record.succeeded]
    return sum(map(sum, sizes)), sum(map(len, sizes))


def _step_sizes(record: Record) -> Sequence[int]:
    return record.counts[1:] if record.shows_steps else ()


def _interval(estimate: Estimate | None, alpha: float) -> Interval | None:
    return estimate.interval(alpha) if estimate else None


def goodput(records: Sequence[Record], objectives: Objectives, alpha: float) -> Goodput | None:
    """The share of all requests that succeeded within every limit; None without requests.

    A request keeps a limit whose figure it does not have: an answer in one piece has no time per
    output token. A request is left out if it has several chunks and nobody knows its tokens.
    ``alpha`` is the level of the interval.
    """
    if objectives.tpot_p90_ms is not None:
        per_token = metrics.TIME_PER_OUTPUT_TOKEN.values
        records = [r for r in records if not r.succeeded or len(r.chunks) < 2 or per_token(r)]
    if not records:
        return None
    limits = [(metric, limit * 0.001) for metric, limit in limits_of(objectives)]
    by_round = [_good(of_round, limits) for (of_round,) in grouping.rounds(records).values()]
    return Goodput(
        share=fmean(_good(records, limits)),
        interval=share_interval(by_round, grouping.in_flight(records), alpha),
        met=all(fmean(_good(records, [limit])) >= _PROMISED for limit in limits),
    )


def limits_of(objectives: Objectives) -> list[tuple[Metric, float]]:
    """Each objective that is set, with its limit in milliseconds."""
    limits = (
        (metrics.TTFT, objectives.ttft_p90_ms),
        (metrics.TIME_PER_OUTPUT_TOKEN, objectives.tpot_p90_ms),
        (metrics.END_TO_END_LATENCY, objectives.e2e_p90_ms),
    )
    return [(metric, limit) for metric, limit in limits if limit is not None]


def share_interval(
    rounds: Sequence[Sequence[bool]], in_flight: int, alpha: float
) -> tuple[float, float] | None:
    """The interval of a share, by the method of Korn and Graubard (Survey Methodology 24, 1998).

    It is the interval of Clopper and Pearson for an effective number of independent requests. That
    number is smaller the more whole rounds differ. It is at most the number of waves, because the
    requests ``in_flight`` together share every step. ``rounds`` says of each request of each round
    whether it is good. None for fewer than ``FEWEST_ROUNDS`` rounds.
    """
    if len(rounds) < FEWEST_ROUNDS:
        return None
    requests, count = sum(map(len, rounds)), len(rounds)
    share = sum(map(sum, rounds)) / requests
    # What each round adds to the share, beyond its part of it (a ratio of two sums).
    excess = [(sum(good) - share * len(good)) * count / requests for good in rounds]
    scatter, worth = variance(excess) / count, float(requests)
    if scatter > 0:
        # The scatter is known from the rounds alone, which are fewer than the requests.
        sureness = stdtrit(requests - 1, 1 - alpha / 2) / stdtrit(count - 1, 1 - alpha / 2)
        worth = float(share * (1 - share) / scatter * sureness**2)
    return clopper_pearson(share, min(requests / in_flight, worth), alpha)


def _good(records: Iterable[Record], limits: Sequence[tuple[Metric, float]]) -> list[bool]:
    return [
        record.succeeded
        and all(value <= limit for metric, limit in limits for value in metric.values(record))
        for record in records
    ]
