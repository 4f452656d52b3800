"""Which claims of a report hold together, and the sentence that says what a cell shows."""

from __future__ import annotations

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


def obstacle(cell: Cell, baseline: Cell, *, fixed: bool = True) -> Verdict | None:
    """Why nothing can be said, if so. ``fixed``: whether the number of rounds was."""
    both = (baseline, cell)
    if missing := [side.variant for side in both if side.requests == 0]:
        was = "was" if len(missing) == 1 else "were"
        sentence = f"No verdict: {' and '.join(missing)} {was} not measured."
        return Verdict(Finding.NOT_MEASURED, sentence)
    if unfinished := [side for side in both if not side.complete]:
        amounts = (
            f"{(side.expected or 0) - side.missing} of {'' if fixed else 'at most '}"
            f"{side.expected} {side.variant} requests were recorded"
            for side in unfinished
        )
        return Verdict(Finding.UNFINISHED, f"No verdict: {' and '.join(amounts)}.")
    if broken := [side for side in both if side.unreliable]:
        failures = []
        for side in broken:
            reason = f" ({side.most_frequent_error})" if side.most_frequent_error else ""
            subject = f"every {side.variant} request"
            if side.errors < side.requests:
                subject = f"{side.errors} of {side.requests} {side.variant} requests"
            failures.append(f"{subject} failed{reason}")
        return Verdict(Finding.FAILED, f"No verdict: {' and '.join(failures)}.")
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
    need = f"at least {FEWEST_ROUNDS}"
    if not planned:
        why = "the requests are too few"
        need = f"{FEWEST_ROUNDS} rounds, or as many stretches of two waves of requests"
    elif rounds < FEWEST_ROUNDS:
        why = f"both were measured in {wording.count(rounds, unit)}"
    else:
        of = wording.count(rounds, unit)
        why = f"too few of {of} have requests that can be timed on both sides"
    return Verdict(Finding.TOO_FEW, f"No verdict: {why}; an interval needs {need}.")


def judge(
    cell: Cell,
    baseline: Cell,
    speed: Claim,
    cost: Claim | None,
    *,
    of_answers: tuple[Interval, Interval] | None = None,
    worse: bool = False,
    name_baseline: bool = False,
    priced: bool = True,
    advise: bool = True,
) -> Verdict:
    """The verdict on ``cell`` against ``baseline``: both answers, and what to do.

    ``of_answers``: where ``cost`` is that of an answer, the ratios of the answers' lengths and of
    tokens a second. ``worse``: whether a check finds that the answers are.
    ``name_baseline``, as it must where there are several. ``priced``: whether a price is known; if
    not, the cost is told in tokens a second. ``advise``: not where something stood in for services.
    """
    sentence = _on_speed(cell, baseline, speed, name_baseline)
    if cost is not None:
        of_baseline = f" of {baseline.variant}" if name_baseline else ""
        on_cost = (_in_money if priced else _in_tokens)(cost, of_baseline, answers=bool(of_answers))
        if Answer.UNDECIDED in (speed.answer, cost.answer):
            sentence += f". {on_cost[:1].upper()}{on_cost[1:]}"
        else:
            agree = (speed.interval.point > 1) == (cost.interval.point > 1)
            sentence += f", {'and' if agree else 'but'} {on_cost}"
    if of_answers:
        sentence += f". {_on_answers(*of_answers, priced=priced)}"
    advice = _advice(cell, baseline, speed, cost, worse=worse) if advise else ""
    if advice and (of_answers or (cost or speed).answer is Answer.UNDECIDED):
        sentence += f". {advice[:1].upper()}{advice[1:]}"
    elif advice:
        sentence += f"; {advice}"
    finding = _SPEED.get(speed.answer) or Finding(speed.answer.value)
    return Verdict(finding, f"{sentence}.")


def _on_speed(cell: Cell, baseline: Cell, speed: Claim, named: bool) -> str:
    if speed.answer is Answer.UNDECIDED:
        return (
            f"Whether {cell.variant} is faster or slower than {baseline.variant} cannot be "
            f"told ({intervals.times(speed.interval)}, 95 % interval "
            f"{intervals.bounds(speed.interval)}{_no_proof(speed)}): {_limits(speed)}"
        )
    faster = speed.interval.point >= 1
    interval = speed.interval if faster else speed.interval.inverse
    than = f" than {baseline.variant}" if named else ""
    return (
        f"{cell.variant} is {intervals.times(interval)} {'faster' if faster else 'slower'}{than} "
        f"for one request (95 % interval {intervals.bounds(interval)}){_trifle(speed)}"
    )


def _in_money(cost: Claim, of: str, *, answers: bool) -> str:
    subject, those = ("an answer costs", "one") if answers else ("its tokens cost", "those")
    if cost.answer is Answer.UNDECIDED:
        _, low, high = intervals.percents(cost.interval.inverse)
        low_is, high_is = map(_less, (cost.interval.high, cost.interval.low))
        bounds = f"{low} % {low_is} to {high} % {high_is}{_no_proof(cost)}"
        return f"whether {subject} more or less cannot be told ({bounds}): {_limits(cost)}"
    than = f" than {those}{of}" if of else ""
    size, bounds = _percent(cost.interval)
    return f"{subject} {size}{than} ({bounds}){_trifle(cost)}"


def _percent(speed: Interval) -> tuple[str, str]:
    """How much more or less a thing costs that comes ``speed`` times as fast, with its bounds."""
    size, low, high = intervals.percents(speed.inverse)
    near, far = (low, high) if speed.point < 1 else (high, low)
    return f"{size} % {_less(speed.point)}", f"{near}-{far} %"


def _less(speed: float) -> str:
    return "less" if speed > 1 else "more"


def _in_tokens(cost: Claim, of: str, *, answers: bool) -> str:
    times, span = intervals.times(cost.interval), intervals.bounds(cost.interval)
    unit = "answers" if answers else "tokens"
    if cost.answer is Answer.UNDECIDED:
        return (
            f"whether all requests together get more or fewer {unit} a second cannot be told "
            f"({times}, {span}{_no_proof(cost)}): {_limits(cost)}"
        )
    return f"all requests together get {times} the {unit} a second{of} ({span}){_trifle(cost)}"


def _on_answers(lengths: Interval, tokens: Interval, *, priced: bool) -> str:
    """Why an answer costs something else than its tokens."""
    size, bounds = _percent(tokens)
    of_token = f"a token costs {size} ({bounds})"
    if not priced:
        bounds = intervals.bounds(tokens)
        of_token = f"all together get {intervals.times(tokens)} the tokens a second ({bounds})"
    long = f"{intervals.times(lengths)} as long ({intervals.bounds(lengths)})"
    return f"Its answers are {long}, and {of_token}"


def _limits(claim: Claim) -> str:
    """What an undecided claim could have shown, and what it would take."""
    if claim.slight:
        return f"any difference is within {100 * MARGIN:.0f} %"
    limits = "even a difference of 100 % would probably not have been seen"
    if claim.detectable <= 1:
        smallest = wording.percent(claim.detectable)
        limits = f"a difference under {smallest} % would probably not have been seen"
    if claim.more_rounds is not None:
        more = wording.count(claim.more_rounds, f"more {claim.unit}")
        size = "the one seen here" if claim.settles > MARGIN else f"one of {100 * MARGIN:.0f} %"
        limits += f", and about {more} would probably show {size}"
    return limits


def _no_proof(claim: Claim) -> str:
    """What to say of an interval that excludes "no difference" although that is not decided."""
    return "" if claim.interval.covers_one else ", no proof among all claims of this report"


def _trifle(claim: Claim) -> str:
    return ", too little to matter" if claim.answer is Answer.NEGLIGIBLE else ""


def _advice(cell: Cell, baseline: Cell, speed: Claim, cost: Claim | None, *, worse: bool) -> str:
    """What to do about it; empty where nothing is decided."""
    answers = {speed.answer} | ({cost.answer} if cost else set())
    failures = [side.errors + side.repeated_errors for side in (cell, baseline)]
    if Answer.BETTER in answers and failures[0] > failures[1]:
        return "look into its errors before you keep it on"
    if Answer.BETTER in answers and worse:
        return "look into its answers before you keep it on"
    if answers >= {Answer.BETTER, Answer.WORSE}:
        gain = "speed" if speed.answer is Answer.BETTER else "money"
        return f"keep it on only where {gain} counts more"
    if Answer.BETTER in answers:
        return "keep it on"
    return "turn it off" if Answer.WORSE in answers else ""
