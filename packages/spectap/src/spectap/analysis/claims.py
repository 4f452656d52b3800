"""Judges a report's claims: which hold together, the verdict on each cell, and what to do."""

import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from spectap.analysis.contrasts import Contrast, Question
from spectap.analysis.estimate import MARGIN, Estimate
from spectap.analysis.grouping import CellKey
from spectap.analysis.summary import Cell
from spectap.analysis.verdicts import Action, Answer, Claim, Finding, Verdict

_Key = TypeVar("_Key", bound=Hashable)

SLIGHT: Final = 0.2  # the part of alpha for calling a difference too little to matter

_FEW_FAILURES: Final = 0.01
"""The largest share of failed requests that changes no figure a user decides by."""

_KEEP: Final = (Action.KEEP, Action.KEEP_FOR_SPEED, Action.KEEP_FOR_MONEY)
_SPEED: Final = {Answer.BETTER: Finding.FASTER, Answer.WORSE: Finding.SLOWER}


@dataclass(frozen=True)
class Family(Generic[_Key]):
    """The claims of one report, and which of them hold."""

    decided: frozenset[_Key]
    level: float
    """The p-value below which one more claim would hold."""
    claims: int


def decide(
    contrasts: Mapping[CellKey, Contrast], alpha: float, claims: int
) -> Family[tuple[CellKey, Question]]:
    """Decides which answers of a report hold, all of them together.

    ``claims`` is the number that the report could make, with those of cells that have no contrast.
    """
    p_values = {
        (key, question): answer.p
        for key, contrast in contrasts.items()
        for question, answer in contrast.answers.items()
    }
    return holm(p_values, (1 - SLIGHT) * alpha, claims)


def holm(p_values: Mapping[_Key, float], alpha: float, claims: int) -> Family[_Key]:
    """Decides claims by Holm's step-down correction (Scandinavian Journal of Statistics 6, 1979).

    The chance that any difference is decided where there is none is at most ``alpha``. ``claims``
    is the number that the report could make. A claim without a p-value counts and is never decided.
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
) -> Claim:
    """Judges an estimate of how many times better a cell is than its baseline.

    ``alpha`` is the level of the interval. ``decided`` says whether the difference holds among all
    claims of the ``family``. ``rounds`` is the number of rounds behind it, or of launches in a run
    that has several.
    """
    # A claim among as many, that can be wrong on one side only.
    if estimate.interval(2 * SLIGHT * alpha / family.claims).within(MARGIN):
        answer = Answer.NEGLIGIBLE
    elif decided:
        answer = Answer.BETTER if estimate.log > 0 else Answer.WORSE
    else:
        answer = Answer.UNDECIDED
    settles = max(MARGIN, math.expm1(abs(estimate.log)))
    enough = estimate.units_for(settles, family.level) if rounds == estimate.units else None
    return Claim(
        interval=estimate.interval(alpha),
        answer=answer,
        detectable=estimate.detectable(family.level),
        settles=settles,
        rounds_needed=enough if enough and enough > rounds else None,
    )


def _failures(cell: Cell) -> int:
    return cell.errors + cell.repeated_errors


def fails_often(cell: Cell) -> bool:
    """Whether so many requests failed that the rest may be a biased selection."""
    return _failures(cell) > _FEW_FAILURES * cell.requests


def obstacle(cell: Cell, baseline: Cell) -> Verdict | None:
    """The reason for which the two cells cannot be compared; None without one."""
    sides = (baseline, cell)
    reasons = {
        Finding.NOT_MEASURED: not all(side.requests for side in sides),
        Finding.UNFINISHED: not all(side.complete for side in sides),
        Finding.FAILED: any(side.unreliable for side in sides),
        Finding.CLIENT: any(side.slowed for side in sides),
        Finding.UNCOUNTED: any(side.countless for side in sides),
    }
    return next((Verdict(finding) for finding, applies in reasons.items() if applies), None)


def judge(
    cell: Cell,
    baseline: Cell,
    speed: Claim,
    cost: Claim | None,
    *,
    worse: bool = False,
    longer: bool = False,
    waits: bool = False,
    advise: bool = True,
) -> Verdict:
    """The verdict on ``cell`` against ``baseline``, and what to do.

    ``worse``: a check finds that answers got worse. ``longer``: answers are surely longer, or
    shorter. ``waits``: some waits are clearly longer. ``advise``: real servers were measured, so an
    action is given.
    """
    finding = _SPEED.get(speed.answer) or Finding(speed.answer.value)
    if not advise:
        return Verdict(finding)
    action = _action(cell, baseline, speed, cost, worse=worse)
    if longer and action:
        action = Action.CHECK_ANSWERS
    if waits and action in _KEEP:
        action = Action.KEEP_WITH_WAITS
    return Verdict(finding, action)


def _action(
    cell: Cell, baseline: Cell, speed: Claim, cost: Claim | None, *, worse: bool
) -> Action | None:
    answers = {speed.answer} | ({cost.answer} if cost else set())
    if Answer.BETTER in answers and worse:
        return Action.CHECK_ANSWERS
    if answers <= {Answer.NEGLIGIBLE, Answer.UNDECIDED} and Answer.UNDECIDED in answers:
        return None
    if any(map(fails_often, (cell, baseline))):
        return Action.CHECK_ERRORS
    if Answer.BETTER in answers and _failures(cell) > _failures(baseline):
        return Action.CHECK_ERRORS
    if Answer.BETTER in answers and answers & {Answer.WORSE, Answer.UNDECIDED}:
        is_faster = speed.answer is Answer.BETTER
        return Action.KEEP_FOR_SPEED if is_faster else Action.KEEP_FOR_MONEY
    if Answer.BETTER in answers:
        return Action.KEEP
    if Answer.WORSE not in answers:
        return Action.LEAVE_OFF
    return Action.CHECK_QUEUE if has_fewer_slots(cell, baseline) else Action.TURN_OFF


def has_fewer_slots(cell: Cell, baseline: Cell) -> bool:
    """Whether the cell's requests queue in a closed loop and the baseline's do not.

    An open loop says nothing of slots: there any slower server queues.
    """
    return cell.queued and not baseline.queued and not (cell.load and cell.load.open)
