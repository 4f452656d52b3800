"""The sentences of a verdict: why there is none, or what one cell shows and what to do about it."""

from collections.abc import Iterator
from typing import Final

from spectap import wording
from spectap.analysis import claims
from spectap.analysis.estimates import intervals
from spectap.analysis.estimates.estimate import MARGIN
from spectap.analysis.estimates.intervals import Interval
from spectap.analysis.summary import (
    Action,
    Answer,
    Case,
    Cell,
    Claim,
    Comparison,
    Finding,
    Summary,
)
from spectap.load_points import FEWEST_ROUNDS
from spectap.report import phrases

_ACTIONS: Final = {
    Action.KEEP: "Keep it on.",
    Action.KEEP_FOR_SPEED: "Keep it on only where speed counts more.",
    Action.KEEP_FOR_MONEY: "Keep it on only where money counts more.",
    Action.TURN_OFF: "Turn it off.",
    Action.CHECK_ANSWERS: "Look into its answers before you keep it on.",
    Action.CHECK_ERRORS: "Look into the errors before you decide.",
}


def verdict(case: Case, cell: Cell, summary: Summary) -> str:
    """The verdict on a cell that is compared with that of its baseline."""
    comparison = cell.comparison
    assert comparison is not None
    if comparison.speed is None:
        return f"No verdict: {_obstacle(cell, case.baseline_of(cell), summary)}"
    some_failed = any(map(claims.fails_often, (cell, case.baseline_of(cell))))
    request = "one request that succeeded" if some_failed else "one request"
    priced = phrases.priced(summary)
    return " ".join(_shown(cell, comparison, comparison.speed, request, priced=priced))


def _obstacle(cell: Cell, baseline: Cell, summary: Summary) -> str:
    assert cell.comparison is not None
    found, sides = cell.comparison.verdict, (baseline, cell)
    match found.finding:
        case Finding.NOT_MEASURED:
            of_sides = [
                f"no {side.variant} request was recorded" for side in sides if not side.requests
            ]
        case Finding.UNFINISHED:
            of_sides = [
                f"{(side.expected or 0) - side.missing} of {side.expected} {side.variant} requests "
                "were recorded"
                for side in sides
                if not side.complete
            ]
        case Finding.FAILED:
            of_sides = [
                f"{side.errors} of {side.requests} {side.variant} requests failed "
                f"({side.most_frequent_error})"
                for side in sides
                if side.unreliable
            ]
        case Finding.CLIENT:
            of_sides = [
                f"the client was too slow for {side.variant}: what was ready waited for the tap or "
                f"the driver {wording.percent(side.lag)} % of a request's time on average, so a "
                "difference may be the client's. Give it more CPU, or ask for less at once"
                for side in sides
                if side.slowed
            ]
        case Finding.UNCONTROLLED:
            of_sides = [
                "the variants were measured one after another, and no control load shows what "
                "changed meanwhile"
            ]
        case Finding.SEQUENTIAL:
            of_sides = [
                f"{baseline.variant} and {cell.variant} were recorded at different times "
                f"({100 * (found.shared or 0):.0f} % of the shorter recording overlaps). What "
                "changed in between may be all that differs. Record both at the same time, or "
                "measure them with spectap measure, which loads both at once, or by turns with "
                "--alternate"
            ]
        case _:
            unit = "launch" if summary.launches > 1 else "round"
            need = wording.count(FEWEST_ROUNDS, unit)
            if not summary.configured:
                need += ", or as many stretches of two waves of requests"
            of_sides = [
                f"of {wording.count(found.rounds or 0, unit)}, fewer than {FEWEST_ROUNDS} could be "
                f"timed on both sides. An interval needs {need}"
            ]
    return f"{'; '.join(of_sides)}."


def _shown(
    cell: Cell, comparison: Comparison, speed: Claim, request: str, *, priced: bool
) -> Iterator[str]:
    """Both answers, and what to do. Without a price, cost is told in tokens a second."""
    cost, lengths, tokens = comparison.cost, comparison.lengths, comparison.by_tokens
    yield (
        f"{cell.variant} is {intervals.times(speed.interval)} as fast as {comparison.baseline} for "
        f"{request} (95 % interval {intervals.bounds(speed.interval)}){_proof(speed)}."
    )
    if cost is not None:
        unit = "answer" if lengths and tokens else "token"
        yield f"{_cost(cost.interval, unit, priced=priced)}{_proof(cost)}."
    if lengths and tokens:
        long = f"{intervals.times(lengths)} as long ({intervals.bounds(lengths)})"
        yield f"Its answers are {long}."
        yield f"{_cost(tokens, 'token', priced=priced)}."
    if action := comparison.verdict.action:
        yield _ACTIONS[action]


def _cost(together: Interval, unit: str, *, priced: bool) -> str:
    if together.vague:
        return f"How many {unit}s a second all requests together get is not known"
    if not priced:
        times, bounds = intervals.times(together), intervals.bounds(together)
        return f"All requests together get {times} the {unit}s a second ({bounds})"
    change, bounds = intervals.change(together.inverse)
    return f"The cost of each {unit} changes by {change} ({bounds})"


def _proof(claim: Claim) -> str:
    """Says what an interval does not: whether it is too little, or proves nothing."""
    within = f"{100 * MARGIN:.0f} %"
    if claim.answer is Answer.NEGLIGIBLE:
        return f", within {within}: too little to matter"
    if claim.answer is not Answer.UNDECIDED:
        return ""
    differences = []
    if claim.detectable < 1:
        differences.append(f"a run like this finds {wording.percent(claim.detectable)} %")
    if claim.rounds_needed is not None:
        run = wording.count(claim.rounds_needed, claim.unit)
        differences.append(f"one of {run} finds {wording.percent(claim.settles)} %")
    powers = f". Four times in five, {', '.join(differences)}" if differences else ""
    return f": undecided{powers}"
