"""Verdicts: what is claimed, and what to do about it."""

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectap.analysis.claims import Family, claim, holm, judge
from spectap.analysis.estimate import ALPHA, Estimate
from spectap.analysis.verdicts import Action, Answer, Claim
from tests import samples

P_VALUES = st.lists(st.floats(0, 1), min_size=1, max_size=20).map(lambda p: dict(enumerate(p)))
SD, BASE = samples.cell("SD"), samples.cell("Base")


def family(claims: int = 20) -> Family[str]:
    return Family(frozenset(), ALPHA / claims, claims)


def claim_of(ratio: float, error: float, *, decided: bool, claims: int = 20) -> Claim:
    """A claim from six rounds, in a report of so many claims."""
    estimate = Estimate(math.log(ratio), error, 6)
    return claim(estimate, ALPHA, family(claims), decided=decided, rounds=6)


FASTER = claim_of(2.9, 0.02, decided=True)
SLOWER = claim_of(0.5, 0.05, decided=True)
CHEAPER = claim_of(2.5, 0.03, decided=True)
DEARER = claim_of(0.9, 0.01, decided=True)
TRIFLE = claim_of(1.02, 0.002, decided=True)
OPEN = claim_of(1.02, 0.03, decided=False)
ALONE = claim_of(1.1, 0.03, decided=False)


@given(P_VALUES, st.integers(0, 5))
def test_claims_that_could_not_be_made_count(p_values: dict[int, float], more: int) -> None:
    fewer = holm(p_values, 0.05, len(p_values)).decided
    assert holm(p_values, 0.05, len(p_values) + more).decided <= fewer


def test_that_a_difference_is_slight_has_to_hold_among_all_claims() -> None:
    alone, among_many = (claim_of(1.02, 0.008, decided=True, claims=count) for count in (1, 20))
    assert alone.answer is Answer.NEGLIGIBLE
    assert among_many.interval.within(0.05)
    assert among_many.answer is Answer.BETTER


def test_blocks_of_time_promise_no_rounds() -> None:
    estimate = Estimate(0.0, 0.1, 10)
    assert claim(estimate, ALPHA, family(), decided=False, rounds=1).rounds_needed is None


@pytest.mark.parametrize(
    ("speed", "cost", "action"),
    [
        (FASTER, CHEAPER, Action.KEEP),
        (FASTER, DEARER, Action.KEEP_FOR_SPEED),
        (SLOWER, CHEAPER, Action.KEEP_FOR_MONEY),
        (SLOWER, DEARER, Action.TURN_OFF),
        (FASTER, TRIFLE, Action.KEEP),
        (FASTER, None, Action.KEEP),
        (FASTER, OPEN, Action.KEEP_FOR_SPEED),
        (OPEN, CHEAPER, Action.KEEP_FOR_MONEY),
        (OPEN, OPEN, None),
        (TRIFLE, TRIFLE, Action.LEAVE_OFF),
        (TRIFLE, None, Action.LEAVE_OFF),
        (TRIFLE, OPEN, None),
        (ALONE, None, None),
    ],
)
def test_what_to_do(speed: Claim, cost: Claim | None, action: Action | None) -> None:
    assert judge(SD, BASE, speed, cost).action is action
    assert judge(SD, BASE, speed, cost, advise=False).action is None
    better = action in (Action.KEEP, Action.KEEP_FOR_SPEED, Action.KEEP_FOR_MONEY)
    many, failing = replace(SD, requests=200), replace(SD, requests=200, errors=1)
    for sides, worse, look in (
        ((SD, BASE), True, Action.CHECK_ANSWERS),
        ((failing, many), False, Action.CHECK_ERRORS),
        ((failing, failing), False, action),
    ):
        assert judge(*sides, speed, cost, worse=worse).action is (look if better else action)
    assert judge(SD, BASE, speed, cost, longer=True).action is (action and Action.CHECK_ANSWERS)
    waiting = judge(SD, BASE, speed, cost, waits=True).action
    assert waiting is (Action.KEEP_WITH_WAITS if better else action)
    often = replace(SD, requests=200, repeated_errors=3)
    for sides in ((often, many), (many, often)):
        assert judge(*sides, speed, cost).action is (action and Action.CHECK_ERRORS)
