"""What a ledger says: percentiles, speed-ups with their intervals, cost and a verdict per case.

The definitions of the measures stand in ``measures``; this module only gathers them.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Final

import numpy as np

from benchmark import metrics
from benchmark.analysis import caveats, intervals
from benchmark.analysis.intervals import Interval, ratio_of_medians
from benchmark.analysis.summary import Arm, Case, Percentiles, Steps, Summary
from benchmark.analysis.verdict import Tally, judge
from benchmark.config import Config, TestCase
from benchmark.names import BASE, SPECULATIVE, VARIANTS
from benchmark.record import Record

_ERROR_WIDTH: Final = 80


def summarise(config: Config, records: Iterable[Record]) -> Summary:
    """Everything the table, the figures and the report say, from the ledger alone.

    Warm-up requests are left out, and so are requests of cases the configuration does not name.
    Intervals describe this run: requests of one wave share a batch, so another day may differ more.
    """
    counted = [record for record in records if record.round > 0]
    named = {case.name for case in config.test_cases}
    strangers = sorted({record.case for record in counted} - named)
    own = [record for record in counted if record.case in named]
    cases = tuple(_case(config, case, own) for case in config.test_cases)
    return Summary(
        run=own[0].run if own else None,
        experiment=config.experiment,
        model=config.model,
        concurrency=config.load.concurrency,
        started=min((record.sent for record in own), default=None),
        ended=max((record.sent + record.end for record in own), default=None),
        cost_denominator=config.cost.denominator if config.cost else "",
        cases=cases,
        notes=tuple(caveats.of_run(config, cases, strangers)),
    )


def _case(config: Config, case: TestCase, records: Sequence[Record]) -> Case:
    requests = {
        variant: [r for r in records if r.case == case.name and r.variant == variant]
        for variant in VARIANTS
    }
    base, speculative = (_arm(config, variant, requests[variant]) for variant in VARIANTS)
    good = {variant: _succeeded(requests[variant]) for variant in VARIANTS}
    by_token = _speedup(good, metrics.time_per_output_token, smaller_is_better=True)
    by_throughput = _speedup(good, metrics.output_throughput, smaller_is_better=False)
    measure = None if by_token else "output throughput"
    return Case(
        name=case.name,
        structure=str(case.structure),
        headline=case.headline,
        base=base,
        speculative=speculative,
        by_time_per_output_token=by_token,
        by_end_to_end=_speedup(good, metrics.end_to_end, smaller_is_better=True),
        by_throughput=by_throughput,
        verdict=judge(base.tally, speculative.tally, by_token or by_throughput, measure),
        notes=tuple(caveats.of_case(config.load, base, speculative)),
    )


def _arm(config: Config, variant: str, records: Sequence[Record]) -> Arm:
    good = _succeeded(records)
    speed = _tokens_per_second(good, records)
    speeds = _interval_of_speed(records, config.load.concurrency)
    usd = _usd_per_million_seconds(config)
    return Arm(
        tally=_tally(variant, records),
        expected=config.load.requests * config.load.rounds,
        ttft=_percentiles(_defined(metrics.ttft, good)),
        time_per_output_token=_percentiles(_defined(metrics.time_per_output_token, good)),
        inter_chunk=_percentiles([gap for r in good for gap in metrics.inter_chunk_latencies(r)]),
        end_to_end=_percentiles(_defined(metrics.end_to_end, good)),
        throughput=_percentiles(_defined(metrics.output_throughput, good)),
        output_tokens=_percentiles([r.output_tokens for r in good if r.output_tokens is not None]),
        tokens_per_second=speed,
        tokens_per_second_interval=speeds,
        usd_per_million_output_tokens=usd / speed if speed else None,
        usd_per_million_output_tokens_interval=speeds.inverse.scaled(usd) if speeds else None,
        steps=_steps(good),
    )


def _succeeded(records: Iterable[Record]) -> list[Record]:
    return [record for record in records if record.succeeded]


def _tally(variant: str, records: Sequence[Record]) -> Tally:
    errors = [(r.error or f"HTTP {r.status}")[:_ERROR_WIDTH] for r in records if not r.succeeded]
    frequent = Counter(errors).most_common(1)
    return Tally(variant, len(records), len(errors), frequent[0][0] if frequent else None)


def _defined(measure: Callable[[Record], float | None], records: Iterable[Record]) -> list[float]:
    values = (measure(record) for record in records)
    return [value for value in values if value is not None]


def _percentiles(values: Sequence[float]) -> Percentiles | None:
    if not values:
        return None
    p50, p90, p99 = (float(value) for value in np.percentile(values, (50, 90, 99)))
    return Percentiles(len(values), p50, p90, p99)


def _speedup(
    requests: dict[str, list[Record]],
    measure: Callable[[Record], float | None],
    *,
    smaller_is_better: bool,
) -> Interval | None:
    base = _defined(measure, requests[BASE])
    speculative = _defined(measure, requests[SPECULATIVE])
    if smaller_is_better:
        return ratio_of_medians(base, speculative)
    return ratio_of_medians(speculative, base)


def _steps(records: Iterable[Record]) -> Steps | None:
    sizes: Counter[int] = Counter()
    for record in records:
        # Without a count per chunk the sizes would be guesses, and a table of guesses misleads.
        if record.per_chunk:
            sizes.update(tokens for _, tokens in record.chunks[1:])
    if not sizes:
        return None
    tokens = sum(size * steps for size, steps in sizes.items())
    return Steps(tokens / sizes.total(), tuple(sorted(sizes.items())))


def _tokens_per_second(good: Iterable[Record], records: Iterable[Record]) -> float | None:
    # The time that failed requests took is paid for as well.
    busy = _busy_seconds(records)
    tokens = sum(record.output_tokens or 0 for record in good)
    return tokens / busy if busy > 0 and tokens > 0 else None


def _interval_of_speed(records: Iterable[Record], concurrency: int) -> Interval | None:
    rounds: dict[int, list[tuple[float, int]]] = defaultdict(list)
    in_order = sorted(records, key=lambda record: (record.sent, record.request))
    for record in in_order:
        tokens = record.output_tokens or 0 if record.succeeded else 0
        rounds[record.round].append((record.end, tokens))
    return intervals.throughput([*rounds.values()], _busy_seconds(in_order), concurrency)


def _busy_seconds(records: Iterable[Record]) -> float:
    # The union of the requests' times, so that neither the gap between two rounds nor the hours
    # before a restarted run count as serving.
    busy, until = 0.0, float("-inf")
    for start, end in sorted((record.sent, record.sent + record.end) for record in records):
        busy += max(0.0, end - max(start, until))
        until = max(until, end)
    return busy


def _usd_per_million_seconds(config: Config) -> float:
    assert config.cost is not None
    return config.cost.usd_per_million_seconds
