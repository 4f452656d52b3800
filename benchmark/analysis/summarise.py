"""What a ledger says: percentiles, speed-ups with their intervals, cost and verdicts.

``metrics`` defines the measures; this module only gathers them.
"""

from __future__ import annotations

import dataclasses
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from benchmark import metrics
from benchmark.analysis import caveats, intervals
from benchmark.analysis.intervals import Interval, ratio_of_medians
from benchmark.analysis.summary import Case, Cell, Comparison, Percentiles, Steps, Summary
from benchmark.analysis.verdict import judge
from benchmark.config import Config, Cost, Load
from benchmark.names import WARM_UP
from benchmark.record import Record

_ERROR_WIDTH: Final = 80

_Measure = Callable[[Record], float | None]


@dataclass(frozen=True)
class _Plan:
    """What was to be measured, as far as it is known."""

    baselines: Mapping[str, str | None]
    """By variant, in the order of the variants; None for a baseline."""
    load: Load | None = None
    cost: Cost | None = None

    @property
    def several_baselines(self) -> bool:
        """Whether a sentence has to say which one."""
        return sum(baseline is None for baseline in self.baselines.values()) > 1


def summarise(config: Config, records: Iterable[Record]) -> Summary:
    """Everything the table, the figures and the report say, from the ledger alone.

    Warm-up requests are left out, and so are requests of cases the configuration does not name.
    Intervals describe this run: the requests of one wave share a batch, so another day may differ
    by more.
    """
    counted = _counted(records)
    named = {case.name for case in config.test_cases}
    strangers = sorted({record.case for record in counted} - named)
    own = [record for record in counted if record.case in named]
    plan = _Plan({one.name: one.baseline for one in config.variants}, config.load, config.cost)
    cases = tuple(
        _case(plan, case.name, str(case.structure), case.headline, own)
        for case in config.test_cases
    )
    return dataclasses.replace(
        _summary(plan, own, cases),
        experiment=config.experiment,
        model=config.model,
        notes=tuple(caveats.of_run(config, cases, strangers)),
    )


def summarise_ledgers(records: Iterable[Record]) -> Summary:
    """What ledgers say that no configuration belongs to.

    Variants and test cases are those that the records name, in the order of their first request.
    The first variant is the baseline of all others. Costs and the intervals of throughputs are
    None: the price and the concurrency are not known.
    """
    counted = _counted(records)
    variants = list(dict.fromkeys(record.variant for record in counted))
    plan = _Plan({name: variants[0] if place else None for place, name in enumerate(variants)})
    names = dict.fromkeys(record.case for record in counted)
    return _summary(plan, counted, tuple(_case(plan, name, "", False, counted) for name in names))


def _counted(records: Iterable[Record]) -> list[Record]:
    return [record for record in records if record.round != WARM_UP]


def _summary(plan: _Plan, records: Sequence[Record], cases: tuple[Case, ...]) -> Summary:
    return Summary(
        run=records[0].run if records else None,
        experiment=None,
        model=None,
        load=plan.load.point if plan.load else None,
        started=min((record.sent for record in records), default=None),
        ended=max((record.sent + record.end for record in records), default=None),
        cost_denominator=plan.cost.denominator if plan.cost else None,
        variants=tuple(plan.baselines),
        cases=cases,
        notes=(),
    )


def _case(
    plan: _Plan, name: str, structure: str, headline: bool, records: Sequence[Record]
) -> Case:
    requests = {
        variant: [r for r in records if r.case == name and r.variant == variant]
        for variant in plan.baselines
    }
    measured = {variant: _cell(plan, variant, name, own) for variant, own in requests.items()}
    good = {variant: _succeeded(own) for variant, own in requests.items()}
    cells = [
        dataclasses.replace(
            measured[variant],
            comparison=None if baseline is None else _compare(plan, variant, measured, good),
        )
        for variant, baseline in plan.baselines.items()
    ]
    return Case(
        name=name,
        structure=structure,
        headline=headline,
        cells=tuple(cells),
        notes=tuple(caveats.of_case(plan.load, cells)),
    )


def _cell(plan: _Plan, variant: str, case: str, records: Sequence[Record]) -> Cell:
    load, good = plan.load, _succeeded(records)
    errors = [(r.error or f"HTTP {r.status}")[:_ERROR_WIDTH] for r in records if not r.succeeded]
    speed = metrics.tokens_per_second(records)
    speeds = _interval_of_speed(records, load.concurrency) if load else None
    usd = plan.cost.usd_per_million_seconds if plan.cost else None
    return Cell(
        variant=variant,
        test_case=case,
        load=load.point if load else None,
        requests=len(records),
        errors=len(errors),
        most_frequent_error=Counter(errors).most_common(1)[0][0] if errors else None,
        expected=load.requests * load.rounds.at_most if load else None,
        measures=dict(_measures(good)),
        tokens_per_second=speed,
        tokens_per_second_interval=speeds,
        usd_per_million_output_tokens=usd / speed if usd and speed else None,
        usd_per_million_output_tokens_interval=speeds.inverse.scaled(usd)
        if usd and speeds
        else None,
        steps=_steps(good),
    )


def _compare(
    plan: _Plan,
    variant: str,
    cells: Mapping[str, Cell],
    good: Mapping[str, Sequence[Record]],
) -> Comparison:
    baseline = plan.baselines[variant]
    assert baseline is not None
    own, other = good[variant], good[baseline]
    by_token = _faster(metrics.time_per_output_token, own, other)
    by_throughput = _ratio(metrics.output_throughput, own, other)
    return Comparison(
        baseline=baseline,
        by_time_per_output_token=by_token,
        by_end_to_end=_faster(metrics.end_to_end, own, other),
        by_throughput=by_throughput,
        verdict=judge(
            cells[variant],
            cells[baseline],
            by_token or by_throughput,
            measure="" if by_token else "output throughput",
            name_baseline=plan.several_baselines,
        ),
    )


def _succeeded(records: Iterable[Record]) -> list[Record]:
    return [record for record in records if record.succeeded]


def _measures(records: Sequence[Record]) -> Iterator[tuple[str, Percentiles]]:
    for metric in metrics.METRICS:
        values = [value for record in records for value in metric.values(record)]
        if values:
            p50, p90, p99 = (float(value) for value in np.percentile(values, (50, 90, 99)))
            yield metric.name, Percentiles(len(values), p50, p90, p99)


def _defined(measure: _Measure, records: Iterable[Record]) -> list[float]:
    values = (measure(record) for record in records)
    return [value for value in values if value is not None]


def _ratio(
    measure: _Measure, records: Iterable[Record], others: Iterable[Record]
) -> Interval | None:
    return ratio_of_medians(_defined(measure, records), _defined(measure, others))


def _faster(
    measure: _Measure, records: Iterable[Record], others: Iterable[Record]
) -> Interval | None:
    """How many times faster the records are, by a measure that is smaller then."""
    return _ratio(measure, others, records)


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


def _interval_of_speed(records: Iterable[Record], concurrency: int) -> Interval | None:
    rounds: dict[int, list[tuple[float, int]]] = defaultdict(list)
    in_order = sorted(records, key=lambda record: (record.sent, record.request))
    for record in in_order:
        tokens = record.output_tokens or 0 if record.succeeded else 0
        rounds[record.round].append((record.end, tokens))
    return intervals.throughput([*rounds.values()], metrics.serving_time(in_order), concurrency)
