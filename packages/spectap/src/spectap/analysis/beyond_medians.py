"""What medians hide: longer waits, prompts that gain nothing, a change over time."""

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from statistics import fmean, stdev, variance
from typing import Final

from scipy.special import bdtrc, fdtrc, stdtr

from spectap import metrics
from spectap.analysis import contrasts, grouping
from spectap.analysis.contrasts import Sending, mean_over_prompts, median
from spectap.analysis.estimate import (
    ALPHA,
    MARGIN,
    Estimate,
    Interval,
    geometric_mean,
    jackknife,
    mean,
)
from spectap.analysis.evidence import Evidence
from spectap.analysis.grouping import CellKey
from spectap.analysis.verdicts import Wait
from spectap.inputs.load_points import FEWEST_ROUNDS
from spectap.metrics import Metric
from spectap.records.record import Record

_CLEARLY: Final = 1.25  # times as long
_NOTICEABLE: Final = 0.1  # and by so many seconds: less is no wait to a reader
_FAR: Final = 1.5  # times the baseline's median

_Halves = tuple[Sequence[float], Sequence[float]]
_Waves = Sequence[Sequence[bool]]
"""For each wave of each round, whether it has a slow request."""


def waits(evidence: Evidence) -> dict[CellKey, tuple[Wait, ...]]:
    """The waits of each cell that are clearly longer than its baseline's. At most 5 % of reports
    err.

    No interval from few rounds holds for a p99. So this tests the cause of a long wait: whether
    more requests are far slower than the baseline's usual ones. The requests of one wave share what
    slows them, so waves are counted: over all cells of a variant, and by round.
    """
    longer = defaultdict[CellKey, tuple[Wait, ...]](tuple)
    plan = evidence.plan
    tails = metrics.END_TO_END_LATENCY, metrics.TTFT
    alpha = ALPHA / (1 + len(tails)) / max(1, len(plan.compared))
    for variant, baseline in plan.compared.items():
        keys = [key for key in evidence.contrasts if key.variant == variant]
        for key in keys:
            units = grouping.rounds(*evidence.sides(key, baseline)).values()
            ratios = [contrasts.ratio(metrics.TTFT.values, unit) for unit in units]
            later = jackknife([ratio for ratio in ratios if ratio], geometric_mean)
            if later and later.interval(2 * alpha / len(keys)).low > _CLEARLY:
                longer[key] += _waits(evidence, key, baseline, metrics.TTFT, "p50")
        for metric in tails:
            slow = {key: _slow_waves(evidence, key, baseline, metric) for key in keys}
            if _more([*slow.values()], alpha):
                for key, (of_cell, of_baseline) in slow.items():
                    if sum(map(sum, of_cell)) > sum(map(sum, of_baseline)) and not longer[key]:
                        longer[key] += _waits(evidence, key, baseline, metric, "p99")
    return longer


def _waits(
    evidence: Evidence, key: CellKey, baseline: str, metric: Metric, percentile: str
) -> tuple[Wait, ...]:
    sides = evidence.cells[key], evidence.cells[key.for_variant(baseline)]
    seconds, before = (getattr(side.measure(metric), percentile, 0.0) for side in sides)
    clear = seconds > max(_CLEARLY * before, before + _NOTICEABLE)
    return (Wait(metric.short, percentile, seconds, before),) if clear else ()


def _slow_waves(
    evidence: Evidence, key: CellKey, baseline: str, metric: Metric
) -> tuple[_Waves, ...]:
    usual = evidence.cells[key.for_variant(baseline)].measure(metric)
    limit = _FAR * usual.p50 if usual else 0.0  # p90 may be a slow one's itself

    def waves(records: Sequence[Record], size: int) -> Iterator[bool]:
        ordered = sorted(records, key=lambda record: record.sent)
        values = [value for r in ordered if r.succeeded for value in metric.values(r)]
        return (max(values[at : at + size]) > limit for at in range(0, len(values), size))

    return tuple(
        [[*waves(of_round, size)] for (of_round,) in rounds]
        for side in evidence.sides(key, baseline)
        for size in [grouping.in_flight(side)]
        for rounds in [grouping.rounds(side, by=grouping.round_of).values()]
    )


def _more(cells: Sequence[tuple[_Waves, ...]], alpha: float) -> bool:
    """Whether more waves are slow than chance explains, by two tests that must both agree: the
    exact test of two shares, given their total, and Student's test over rounds, which covers what
    slows a whole round."""
    slow, before = (sum(sum(map(sum, cell[side])) for cell in cells) for side in (0, 1))
    every, every_before = (sum(sum(map(len, cell[side])) for cell in cells) for side in (0, 1))
    excess = [sum(of) - sum(base) for cell in cells for of, base in zip(*cell, strict=False)]
    if slow <= before or len(excess) < FEWEST_ROUNDS:
        return False
    error = stdev(excess) / math.sqrt(len(excess))
    by_rounds = stdtr(len(excess) - 1, -fmean(excess) / error) if error else 0.0
    by_waves = bdtrc(slow - 1, slow + before, every / (every + every_before))
    return bool(max(by_rounds, by_waves) <= alpha)


def spread(evidence: Evidence, key: CellKey) -> tuple[tuple[tuple[str, Interval], ...], float]:
    """The speed-up of each class of prompts, and the share of prompts that gain nothing.

    Empty and 0 where classes, or prompts, do not surely differ.
    """
    contrast, plan = evidence.contrasts.get(key), evidence.plan
    sides = evidence.sides(key, plan.compared[key.variant]) if contrast else ((), ())
    if contrast is None or not contrasts.names_prompts(*sides):
        return (), 0.0
    alpha = plan.alpha / len(evidence.contrasts)
    value = contrasts.whole_speed_up if contrast.longer else contrasts.speed_up
    ratios = defaultdict[str, dict[Sending, float]](dict)
    for sending, unit in contrasts.sendings(*sides).items():
        if ratio := value(unit):
            ratios[unit[0][0].prompt_class][sending] = ratio
    means = {name: mean_over_prompts(of_class) for name, of_class in ratios.items()}
    classes = {name: mean.interval(alpha) for name, mean in means.items() if mean}
    lows, highs = ([getattr(each, end) for each in classes.values()] for end in ("low", "high"))
    differ = classes and max(lows) > (1 + MARGIN) * min(highs)
    every = {sending: ratio for of_class in ratios.values() for sending, ratio in of_class.items()}
    return tuple(classes.items()) if differ else (), _idle(every, alpha)


def _idle(ratios: Mapping[Sending, float], alpha: float) -> float:
    prompts = defaultdict[str, list[float]](list)
    for (prompt, _), ratio in ratios.items():
        prompts[prompt].append(math.log(ratio))
    several = [logs for logs in prompts.values() if len(logs) >= FEWEST_ROUNDS]
    if len(several) < FEWEST_ROUNDS:
        return 0.0
    grand = fmean(map(fmean, several))
    freedom = sum(len(logs) - 1 for logs in several)
    within = sum(variance(logs) * (len(logs) - 1) for logs in several) / freedom
    between = sum(len(logs) * (fmean(logs) - grand) ** 2 for logs in several)
    between /= len(several) - 1
    if within and fdtrc(len(several) - 1, freedom, between / within) > alpha:
        return 0.0
    reach = math.log1p(MARGIN)
    return fmean(fmean(logs) - math.sqrt(within / len(logs)) < reach for logs in several)


def halves(evidence: Evidence) -> dict[str, Interval]:
    """The change between a run's halves, of variants that surely changed by more than matters."""
    alpha = evidence.plan.alpha / max(1, len(evidence.plan.baselines))
    changes = {}
    for variant in evidence.plan.baselines:
        cells = [cell for key, cell in evidence.by_cell.items() if key.variant == variant]
        if (change := _change([_speeds(cell) for cell in cells])) is None:
            continue
        interval, point = change.interval(alpha), change.interval(1.0)
        if not point.within(MARGIN) and not interval.low <= 1 <= interval.high:
            changes[variant] = interval
    return changes


def _speeds(records: Iterable[Record]) -> _Halves:
    """The median speed of a request in each round of both halves. A middle round is in neither."""
    rounds = [of_round for (of_round,) in grouping.rounds(records, by=grouping.round_of).values()]
    rounds.sort(key=lambda of_round: min(record.sent for record in of_round))
    speeds = [median(metrics.REQUEST_OUTPUT_THROUGHPUT.values, of_round) for of_round in rounds]
    known = [speed for speed in speeds if speed]
    half = len(known) // 2
    return known[:half], known[len(known) - half :]


def _change(halves: Sequence[_Halves]) -> Estimate | None:
    """The change over all cells, as a mean of the rounds that were measured. With fewer than three
    cells, its error comes from the rounds."""
    ratios = [geometric_mean(after) / geometric_mean(before) for before, after in halves if after]
    if over_cells := jackknife(ratios, geometric_mean):
        return over_cells
    pairs = [[jackknife(half, geometric_mean) for half in pair] for pair in halves]
    known = [after.against(before) for before, after in pairs if before and after]
    return mean(known) if known else None
