"""Whether a variant changed while it was measured: the last half of the rounds by the first."""

from collections.abc import Iterable, Sequence

from spectap import metrics
from spectap.analysis import grouping
from spectap.analysis.contrasts import median
from spectap.analysis.estimates.estimate import MARGIN, Estimate, geometric_mean, jackknife, mean
from spectap.analysis.estimates.intervals import Interval
from spectap.analysis.evidence import Evidence
from spectap.record import Record

_Halves = tuple[Sequence[float], Sequence[float]]


def of_variants(evidence: Evidence) -> dict[str, Interval]:
    """The change of each variant that surely changed, and by more than matters."""
    alpha = evidence.plan.alpha / max(1, len(evidence.plan.baselines))
    changes = {}
    for variant in evidence.plan.baselines:
        cells = [cell for key, cell in evidence.by_cell.items() if key.variant == variant]
        if (change := _change([_halves(cell) for cell in cells])) is None:
            continue
        interval, point = change.interval(alpha), change.interval(1.0)
        if not point.within(MARGIN) and not interval.low <= 1 <= interval.high:
            changes[variant] = interval
    return changes


def _halves(records: Iterable[Record]) -> _Halves:
    """The median speed of a request in each round of either half; a middle round is in neither."""
    rounds = [of_round for (of_round,) in grouping.rounds(records, by=grouping.round_of).values()]
    rounds.sort(key=lambda of_round: min(record.sent for record in of_round))
    speeds = [median(metrics.REQUEST_OUTPUT_THROUGHPUT.values, of_round) for of_round in rounds]
    known = [speed for speed in speeds if speed]
    half = len(known) // 2
    return known[:half], known[len(known) - half :]


def _change(halves: Sequence[_Halves]) -> Estimate | None:
    """Over the cells: what is true of the rounds that were measured, of which one may be slow. With
    fewer than three cells the rounds say how sure it is."""
    ratios = [geometric_mean(after) / geometric_mean(before) for before, after in halves if after]
    if over_cells := jackknife(ratios, geometric_mean):
        return over_cells
    pairs = [[jackknife(half, geometric_mean) for half in pair] for pair in halves]
    known = [after.against(before) for before, after in pairs if before and after]
    return mean(known) if known else None
