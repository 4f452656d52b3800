"""Waits that are clearly longer than the baseline's, which no median of whole requests shows.

No interval from few rounds holds for a p99. So its cause is tested: whether more requests are far
slower than the baseline's usual ones. Those of one wave share what slows them, so waves are
counted, of all cells of a variant together, and they have to be of several rounds.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from scipy.special import bdtrc

from spectap import metrics
from spectap.analysis import contrasts, grouping
from spectap.analysis.estimates.estimate import ALPHA, geometric_mean, jackknife
from spectap.analysis.evidence import Evidence
from spectap.analysis.grouping import CellKey
from spectap.analysis.summary import Wait
from spectap.load_points import FEWEST_ROUNDS
from spectap.metrics import Metric
from spectap.record import Record

_CLEARLY: Final = 1.25
"""How many times longer a wait has to be."""
_NOTICEABLE: Final = 0.1
"""And by how many seconds: less is no wait to a reader."""
_FAR: Final = 1.5
"""How many times the baseline's p90 a slow request takes."""
_TESTS: Final = 3


class _Waves(NamedTuple):
    slow: int
    every: int
    rounds: frozenset[tuple[str, int]]
    """Rounds with slow ones."""


def waits(evidence: Evidence) -> dict[CellKey, tuple[Wait, ...]]:
    """The waits of each cell that are clearly longer; in a report without any, with 5 % at most."""
    found = defaultdict[CellKey, list[Wait]](list)
    plan = evidence.plan
    alpha = ALPHA / (_TESTS * max(1, len(plan.compared)))
    for variant, baseline in plan.compared.items():
        keys = [key for key in evidence.contrasts if key.variant == variant]
        for key in keys:
            if _later(evidence.sides(key, baseline), alpha / len(keys)):
                found[key] += _wait(evidence, key, baseline, metrics.TTFT, "p50")
        for metric in (metrics.END_TO_END_LATENCY, metrics.TTFT):
            waves = {key: _of_sides(evidence, key, baseline, metric) for key in keys}
            if _more([*waves.values()], alpha):
                for key, (of_cell, of_baseline) in waves.items():
                    if of_cell.slow > of_baseline.slow and not found[key]:
                        found[key] += _wait(evidence, key, baseline, metric, "p99")
    return {key: tuple(of_cell) for key, of_cell in found.items()}


def _wait(
    evidence: Evidence, key: CellKey, baseline: str, metric: Metric, percentile: str
) -> Iterator[Wait]:
    sides = evidence.cells[key], evidence.cells[key.for_variant(baseline)]
    seconds, before = (getattr(side.measure(metric), percentile, 0.0) for side in sides)
    if seconds > max(_CLEARLY * before, before + _NOTICEABLE):
        yield Wait(metric.short, percentile, seconds, before)


def _later(sides: tuple[Sequence[Record], Sequence[Record]], alpha: float) -> bool:
    """Whether the first token of a typical request comes clearly later."""
    ratios = [
        contrasts.ratio(metrics.TTFT.values, unit) for unit in grouping.rounds(*sides).values()
    ]
    estimate = jackknife([ratio for ratio in ratios if ratio], geometric_mean)
    return estimate is not None and estimate.interval(2 * alpha).low > _CLEARLY


def _of_sides(
    evidence: Evidence, key: CellKey, baseline: str, metric: Metric
) -> tuple[_Waves, _Waves]:
    usual = evidence.cells[key.for_variant(baseline)].measure(metric)
    limit = _FAR * usual.p90 if usual else 0.0
    of_cell, of_baseline = (_waves(side, metric, limit) for side in evidence.sides(key, baseline))
    return of_cell, of_baseline


def _waves(records: Sequence[Record], metric: Metric, limit: float) -> _Waves:
    size, slow, every, rounds = grouping.in_flight(records), 0, 0, set()
    for number, (of_round,) in grouping.rounds(records, by=grouping.round_of).items():
        ordered = sorted(of_round, key=lambda record: record.sent)
        values = [v for record in ordered if record.succeeded for v in metric.values(record)]
        waves = [max(values[at : at + size]) > limit for at in range(0, len(values), size)]
        slow, every = slow + sum(waves), every + len(waves)
        rounds |= {number} if any(waves) else set()
    return _Waves(slow, every, frozenset(rounds))


def _more(waves: Sequence[tuple[_Waves, _Waves]], alpha: float) -> bool:
    """Whether more waves are slow than chance makes so: the exact test of two shares, given how
    many of both sides are."""
    slow, slow_before = (sum(each[side].slow for each in waves) for side in (0, 1))
    every, every_before = (sum(each[side].every for each in waves) for side in (0, 1))
    several = frozenset[tuple[str, int]]().union(*(each[0].rounds for each in waves))
    if slow == 0 or len(several) < FEWEST_ROUNDS:
        return False
    share = every / (every + every_before)
    return bool(bdtrc(slow - 1, slow + slow_before, share) <= alpha)
