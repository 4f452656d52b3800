"""What one cell says against its baseline: a finding, and the sentence that says it."""

from __future__ import annotations

from typing import Final

from benchmark.analysis import intervals
from benchmark.analysis.intervals import MINIMUM_SAMPLE, Interval
from benchmark.analysis.summary import Cell, Finding, Verdict

# Below this a difference can be real and still change nobody's decision.
MARGIN: Final = 0.05


def judge(
    cell: Cell,
    baseline: Cell,
    speedup: Interval | None,
    *,
    measure: str = "",
    name_baseline: bool = False,
) -> Verdict:
    """The verdict on ``cell`` against ``baseline``.

    ``speedup`` above 1 means that the cell is faster; None means that no interval could be
    computed. ``measure`` names what it was taken from, unless that is the time per output token.
    ``name_baseline``: whether the sentence names the baseline, as it must where there are several.
    """
    obstacle = _without_requests(cell, baseline) or _with_failures(cell, baseline)
    if obstacle is not None:
        return obstacle
    if speedup is None:
        return _too_few(cell, baseline)
    by = f" by {measure}" if measure else ""
    if speedup.covers_one:
        return Verdict(Finding.UNDECIDED, _no_difference(cell, baseline, speedup, by))
    than = f" than {baseline.variant}" if name_baseline else ""
    return _decide(cell, speedup, than, by, more_errors=cell.errors > baseline.errors)


def _without_requests(cell: Cell, baseline: Cell) -> Verdict | None:
    missing = [one.variant for one in (baseline, cell) if one.requests == 0]
    if not missing:
        return None
    was = "was" if len(missing) == 1 else "were"
    sentence = f"No verdict: {' and '.join(missing)} {was} not measured."
    return Verdict(Finding.NOT_MEASURED, sentence)


def _with_failures(cell: Cell, baseline: Cell) -> Verdict | None:
    broken = [one for one in (baseline, cell) if one.unreliable]
    if not broken:
        return None
    return Verdict(Finding.FAILED, f"No verdict: {' and '.join(map(_failures, broken))}.")


def _failures(cell: Cell) -> str:
    reason = f" ({cell.most_frequent_error})" if cell.most_frequent_error else ""
    if cell.succeeded == 0:
        return f"every {cell.variant} request failed{reason}"
    return f"{cell.errors} of {cell.requests} {cell.variant} requests failed{reason}"


def _too_few(cell: Cell, baseline: Cell) -> Verdict:
    sizes = f"{baseline.succeeded} requests of {baseline.variant} and {cell.succeeded} of "
    need = f"an interval needs at least {MINIMUM_SAMPLE} measurable requests of each"
    return Verdict(Finding.TOO_FEW, f"No verdict: {sizes}{cell.variant} succeeded; {need}.")


def _decide(cell: Cell, speedup: Interval, than: str, by: str, *, more_errors: bool) -> Verdict:
    faster = speedup.point >= 1
    shown = speedup if faster else speedup.inverse
    claim = (
        f"{cell.variant} is {intervals.times(shown)} {'faster' if faster else 'slower'}{than} "
        f"here{by}, 95 % interval {intervals.span(shown)}"
    )
    if speedup.within(MARGIN):
        return Verdict(Finding.NEGLIGIBLE, f"{claim}; too little to matter.")
    if not faster:
        return Verdict(Finding.SLOWER, f"{claim}; turn it off.")
    advice = "look into its errors before you keep it on" if more_errors else "keep it on"
    return Verdict(Finding.FASTER, f"{claim}; {advice}.")


def _no_difference(cell: Cell, baseline: Cell, speedup: Interval, by: str) -> str:
    bound = f" and stays within {100 * MARGIN:.0f} % of it" if speedup.within(MARGIN) else ""
    return (
        f"No difference between {cell.variant} and {baseline.variant} can be told here{by}: "
        f"the 95 % interval {intervals.span(speedup)} covers 1{bound}."
    )
