"""Which claims of a report hold together, and the sentence that says what a cell shows."""

import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from spectap import wording
from spectap.analysis.contrasts import Contrast, Question
from spectap.analysis.estimates import intervals
from spectap.analysis.estimates.estimate import MARGIN, Estimate
from spectap.analysis.estimates.intervals import Interval
from spectap.analysis.grouping import CellKey
from spectap.analysis.summary import Answer, Cell, Claim, Finding, Verdict
from spectap.load_points import FEWEST_ROUNDS

_Key = TypeVar("_Key", bound=Hashable)

SLIGHT: Final = 0.2  # the part of alpha for calling a difference too little to matter

_SPEED: Final = {Answer.BETTER: Finding.FASTER, Answer.WORSE: Finding.SLOWER}


@dataclass(frozen=True)
class Family(Generic[_Key]):
    """Which claims of one report hold."""

    decided: frozenset[_Key]
    level: float
    """The p-value that one more claim would have had to stay under."""
    claims: int


def decide(
    contrasts: Mapping[CellKey, Contrast], alpha: float, claims: int
) -> Family[tuple[CellKey, Question]]:
    """Which answers hold, all of one report together.

    ``claims`` is how many the report could make, those of cells without a contrast included.
    """
    p_values = {
        (key, question): answer.p
        for key, contrast in contrasts.items()
        for question, answer in contrast.answers.items()
    }
    return holm(p_values, (1 - SLIGHT) * alpha, claims)


def holm(p_values: Mapping[_Key, float], alpha: float, claims: int) -> Family[_Key]:
    """Holm's step-down correction (Scandinavian Journal of Statistics 6, 1979): the chance that any
    difference is decided where there is none is at most ``alpha``.

    ``claims`` is how many the report could make; those without a p-value cannot be decided.
    """
    decided: set[_Key] = set()
    for key in sorted(p_values, key=lambda key: p_values[key]):
        if p_values[key] > alpha / (claims - len(decided)):
            break
        decided.add(key)
    return Family(frozenset(decided), alpha / max(1, claims - len(decided)), claims)


def claim(
    estimate: Estimate,
    alpha: float,
    family: Family[Any],
    *,
    decided: bool,
    rounds: int,
    unit: str = "round",
) -> Claim:
    """What an estimate of how much better a cell is comes to.

    ``alpha`` is that of the interval. ``decided``: whether the difference holds among all claims of
    the ``family``. ``rounds``: those it rests on, which are launches where these are the ``unit``.
    """
    # A claim among as many, that can be wrong on one side only.
    slight = estimate.interval(2 * SLIGHT * alpha / family.claims).within(MARGIN)
    level = family.level
    answer = Answer.UNDECIDED
    if decided:
        answer = Answer.BETTER if estimate.log > 0 else Answer.WORSE
        answer = Answer.NEGLIGIBLE if slight else answer
    settles = max(MARGIN, math.expm1(abs(estimate.log)))
    enough = estimate.units_for(settles, level)
    more = enough - estimate.units if enough else 0
    return Claim(
        interval=estimate.interval(alpha),
        answer=answer,
        slight=slight,
        detectable=estimate.detectable(level),
        settles=settles,
        more_rounds=more if more > 0 and rounds == estimate.units else None,
        unit=unit,
    )


def obstacle(cell: Cell, baseline: Cell) -> Verdict | None:
    """Why nothing can be said, if so."""
    sides = (baseline, cell)
    reasons = {
        Finding.NOT_MEASURED: [
            f"no {side.variant} request was recorded" for side in sides if not side.requests
        ],
        Finding.UNFINISHED: [
            f"{(side.expected or 0) - side.missing} of {side.expected} {side.variant} requests "
            "were recorded"
            for side in sides
            if not side.complete
        ],
        Finding.FAILED: [
            f"{side.errors} of {side.requests} {side.variant} requests failed "
            f"({side.most_frequent_error})"
            for side in sides
            if side.unreliable
        ],
    }
    for finding, of_sides in reasons.items():
        if of_sides:
            return Verdict(finding, f"No verdict: {'; '.join(of_sides)}.")
    return None


UNCONTROLLED: Final = Verdict(
    Finding.UNCONTROLLED,
    "No verdict: the variants were measured one after another, and no control load shows what "
    "changed meanwhile.",
)


def sequential(cell: Cell, baseline: Cell, shared: float) -> Verdict:
    """No verdict, because only this part of the shorter recording overlaps with the other."""
    return Verdict(
        Finding.SEQUENTIAL,
        f"No verdict: {baseline.variant} and {cell.variant} were recorded at different times "
        f"({100 * shared:.0f} % of the shorter recording overlaps). What changed in between may be "
        "all that differs. Record both at the same time, or measure them with spectap measure, "
        "which loads both at once, or by turns with --alternate.",
    )


def too_few(rounds: int, *, planned: bool = True, unit: str = "round") -> Verdict:
    """No verdict, though both sides were measured in this many rounds, or launches.

    ``planned``: whether they were to be measured in rounds.
    """
    need = wording.count(FEWEST_ROUNDS, unit)
    if not planned:
        need += ", or as many stretches of two waves of requests"
    return Verdict(
        Finding.TOO_FEW,
        f"No verdict: of {wording.count(rounds, unit)}, fewer than {FEWEST_ROUNDS} could be timed "
        f"on both sides. An interval needs {need}.",
    )


def judge(
    cell: Cell,
    baseline: Cell,
    speed: Claim,
    cost: Claim | None,
    *,
    of_answers: tuple[Interval, Interval] | None = None,
    worse: bool = False,
    priced: bool = True,
    advise: bool = True,
) -> Verdict:
    """The verdict on ``cell`` against ``baseline``: both answers, and what to do.

    ``of_answers``: where ``cost`` is that of an answer, the ratios of the answers' lengths and of
    tokens a second. ``worse``: whether a check finds that the answers are. ``priced``: whether a
    price is known; if not, the cost is told in tokens a second. ``advise``: not where something
    stood in for services.
    """
    sentences = [
        f"{cell.variant} is {intervals.times(speed.interval)} as fast as {baseline.variant} for "
        f"one request (95 % interval {intervals.bounds(speed.interval)}){_proof(speed)}."
    ]
    if cost is not None:
        unit = "answer" if of_answers else "token"
        sentences.append(f"{_cost(cost.interval, unit, priced=priced)}{_proof(cost)}.")
    if of_answers:
        lengths, tokens = of_answers
        long = f"{intervals.times(lengths)} as long ({intervals.bounds(lengths)})"
        sentences += f"Its answers are {long}.", f"{_cost(tokens, 'token', priced=priced)}."
    if advise and (advice := _advice(cell, baseline, speed, cost, worse=worse)):
        sentences.append(advice)
    return Verdict(_SPEED.get(speed.answer) or Finding(speed.answer.value), " ".join(sentences))


def _cost(together: Interval, unit: str, *, priced: bool) -> str:
    if not priced:
        times, bounds = intervals.times(together), intervals.bounds(together)
        return f"All requests together get {times} the {unit}s a second ({bounds})"
    return "The cost of each {} changes by {} ({})".format(
        unit, *intervals.change(together.inverse)
    )


def _proof(claim: Claim) -> str:
    """What an interval does not say itself: whether it is too little, or proves nothing."""
    within = f"{100 * MARGIN:.0f} %"
    if claim.answer is Answer.NEGLIGIBLE:
        return f", within {within}: too little to matter"
    if claim.answer is not Answer.UNDECIDED:
        return ""
    if claim.slight:
        return f": undecided, and any difference is within {within}"
    missed = wording.percent(min(1.0, claim.detectable))
    limits = f": undecided; a difference under {missed} % would probably not have been seen"
    if claim.more_rounds is not None:
        more = wording.count(claim.more_rounds, f"more {claim.unit}")
        limits += (
            f", and about {more} would probably show one of {wording.percent(claim.settles)} %"
        )
    return limits


def _advice(cell: Cell, baseline: Cell, speed: Claim, cost: Claim | None, *, worse: bool) -> str:
    """What to do about it; empty where nothing is decided."""
    answers = {speed.answer} | ({cost.answer} if cost else set())
    failures = [side.errors + side.repeated_errors for side in (cell, baseline)]
    if Answer.BETTER in answers and (worse or failures[0] > failures[1]):
        return f"Look into its {'answers' if worse else 'errors'} before you keep it on."
    if answers >= {Answer.BETTER, Answer.WORSE}:
        gain = "speed" if speed.answer is Answer.BETTER else "money"
        return f"Keep it on only where {gain} counts more."
    if Answer.BETTER in answers:
        return "Keep it on."
    return "Turn it off." if Answer.WORSE in answers else ""
