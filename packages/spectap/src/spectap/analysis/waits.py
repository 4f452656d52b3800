"""Waits that are clearly longer than the baseline's, which no median of whole requests shows.

No interval from few rounds holds for a p99. So its cause is tested: whether more requests are far
slower than the baseline's usual ones. Those of one wave share what slows them, so waves are
counted, of all cells of a variant together, and by round.
"""

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from statistics import fmean, stdev
from typing import Final

from scipy.special import bdtrc, stdtr

from spectap import metrics
from spectap.analysis import contrasts, grouping
from spectap.analysis.estimates.estimate import ALPHA, geometric_mean, jackknife
from spectap.analysis.evidence import Evidence
from spectap.analysis.grouping import CellKey
from spectap.analysis.summary import Wait
from spectap.load_points import FEWEST_ROUNDS
from spectap.metrics import Metric
from spectap.record import Record

_CLEARLY: Final = 1.25  # times as long
_NOTICEABLE: Final = 0.1  # and by so many seconds: less is no wait to a reader
_FAR: Final = 1.5  # times the baseline's median


def waits(evidence: Evidence) -> dict[CellKey, tuple[Wait, ...]]:
    """The waits of each cell that are clearly longer: wrong in 5 % of reports at most."""
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


_Waves = Sequence[Sequence[bool]]
"""Whether each wave of each round has a slow request."""


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
        [[*waves(of_round, grouping.in_flight(side))] for (of_round,) in rounds]
        for side in evidence.sides(key, baseline)
        for rounds in [grouping.rounds(side, by=grouping.round_of).values()]
    )


def _more(cells: Sequence[tuple[_Waves, ...]], alpha: float) -> bool:
    """Whether more waves are slow than chance makes so: the exact test of two shares, given how
    many of both sides are; and Student's over rounds, for what slows whole rounds of either."""
    slow, before = (sum(sum(map(sum, cell[side])) for cell in cells) for side in (0, 1))
    every, every_before = (sum(sum(map(len, cell[side])) for cell in cells) for side in (0, 1))
    excess = [sum(of) - sum(base) for cell in cells for of, base in zip(*cell, strict=False)]
    if slow <= before or len(excess) < FEWEST_ROUNDS:
        return False
    error = stdev(excess) / math.sqrt(len(excess))
    by_rounds = stdtr(len(excess) - 1, -fmean(excess) / error) if error else 0.0
    by_waves = bdtrc(slow - 1, slow + before, every / (every + every_before))
    return bool(max(by_rounds, by_waves) <= alpha)
