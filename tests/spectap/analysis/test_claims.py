"""Verdicts: what is claimed, and the sentence that says it."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectap.analysis.claims import Family, claim, holm, judge
from spectap.analysis.estimates.estimate import ALPHA, Estimate
from spectap.analysis.summary import Answer, Claim, Finding
from tests.spectap import samples

P_VALUES = st.lists(st.floats(0, 1), min_size=1, max_size=20).map(lambda p: dict(enumerate(p)))
SD, BASE = samples.cell("SD"), samples.cell("Base")
ROUNDS = 6


def family(claims: int = 20) -> Family[str]:
    return Family(frozenset(), ALPHA / claims, claims)


def said(ratio: float, error: float, *, decided: bool, claims: int = 20) -> Claim:
    """A claim from six rounds, in a report of so many claims."""
    estimate = Estimate(math.log(ratio), error, ROUNDS)
    return claim(estimate, ALPHA, family(claims), decided=decided, rounds=ROUNDS)


FASTER = said(2.9, 0.02, decided=True)
SLOWER = said(0.5, 0.05, decided=True)
CHEAPER = said(2.5, 0.03, decided=True)
DEARER = said(0.9, 0.01, decided=True)
TRIFLE = said(1.02, 0.002, decided=True)
OPEN = said(1.02, 0.03, decided=False)
ALIKE = said(1.0, 0.006, decided=False)
ALONE = said(1.1, 0.03, decided=False)


class TestHolm:
    def test_the_textbook(self) -> None:
        found = holm({"a": 0.01, "b": 0.04, "c": 0.03, "d": 0.005}, 0.05, 4)
        assert found.decided == {"a", "d"}
        assert found.level == pytest.approx(0.05 / 2)

    @given(P_VALUES, st.integers(0, 5))
    def test_claims_that_could_not_be_made_count(
        self, p_values: dict[int, float], more: int
    ) -> None:
        fewer = holm(p_values, 0.05, len(p_values)).decided
        assert holm(p_values, 0.05, len(p_values) + more).decided <= fewer


class TestClaim:
    @given(st.floats(-2, 2), st.floats(1e-4, 1), st.booleans())
    def test_nothing_is_claimed_that_is_not_decided(
        self, log: float, error: float, decided: bool
    ) -> None:
        estimate = Estimate(log, error, ROUNDS)
        found = claim(estimate, ALPHA, family(), decided=decided, rounds=ROUNDS)
        assert (found.answer is Answer.UNDECIDED) == (not decided)
        assert found.answer is not Answer.BETTER or log > 0
        assert found.answer is not Answer.WORSE or log <= 0

    def test_that_a_difference_is_slight_has_to_hold_among_all_claims(self) -> None:
        alone, among_many = (said(1.02, 0.008, decided=True, claims=count) for count in (1, 20))
        assert alone.answer is Answer.NEGLIGIBLE
        assert among_many.interval.within(0.05)
        assert among_many.answer is Answer.BETTER

    def test_blocks_of_time_promise_no_rounds(self) -> None:
        estimate = Estimate(0.0, 0.1, 10)
        assert claim(estimate, ALPHA, family(), decided=False, rounds=1).more_rounds is None


class TestSentence:
    @pytest.mark.parametrize(
        ("speed", "cost", "finding", "sentence"),
        [
            (
                *(FASTER, CHEAPER, Finding.FASTER),
                "SD is 2.9x faster for one request (95 % interval 2.8-3.1), and its tokens cost "
                "60 % less (57-63 %); keep it on.",
            ),
            (
                *(FASTER, DEARER, Finding.FASTER),
                "SD is 2.9x faster for one request (95 % interval 2.8-3.1), but its tokens cost "
                "11 % more (8-14 %); keep it on only where speed counts more.",
            ),
            (
                *(SLOWER, CHEAPER, Finding.SLOWER),
                "SD is 2.0x slower for one request (95 % interval 1.8-2.3), but its tokens cost "
                "60 % less (57-63 %); keep it on only where money counts more.",
            ),
            (
                *(SLOWER, DEARER, Finding.SLOWER),
                "SD is 2.0x slower for one request (95 % interval 1.8-2.3), and its tokens cost "
                "11 % more (8-14 %); turn it off.",
            ),
            (
                *(TRIFLE, OPEN, Finding.NEGLIGIBLE),
                "SD is 1.02x faster for one request (95 % interval 1.01-1.03), too little to "
                "matter. Whether its tokens cost more or less cannot be told (9.2 % less to 5.9 % "
                "more): a difference under 23 % would probably not have been seen, and about 33 "
                "more rounds would settle 5 %.",
            ),
            (
                *(ALIKE, CHEAPER, Finding.UNDECIDED),
                "Whether SD is faster or slower than Base cannot be told (1.00x, 95 % interval "
                "0.98-1.02): any difference is within 5 %. Its tokens cost 60 % less (57-63 %); "
                "keep it on.",
            ),
            (
                *(ALONE, None, Finding.UNDECIDED),
                "Whether SD is faster or slower than Base cannot be told (1.10x, 95 % interval "
                "1.02-1.19, no proof among all claims of this report): a difference under 23 % "
                "would probably not have been seen, and about 8 more rounds would settle this one.",
            ),
        ],
    )
    def test_sentences(
        self, speed: Claim, cost: Claim | None, finding: Finding, sentence: str
    ) -> None:
        verdict = judge(SD, BASE, speed, cost)
        assert verdict.finding is finding
        assert verdict.sentence == sentence

    def test_without_a_price_the_cost_is_told_in_tokens(self) -> None:
        assert judge(SD, BASE, FASTER, CHEAPER, priced=False).sentence == (
            "SD is 2.9x faster for one request (95 % interval 2.8-3.1), and all requests together "
            "get 2.5x the tokens a second (2.3-2.7); keep it on."
        )
        assert (
            "whether all requests together get more or fewer tokens a second"
            in judge(SD, BASE, FASTER, OPEN, priced=False).sentence.lower()
        )

    @given(*[st.sampled_from([FASTER, SLOWER, TRIFLE, OPEN, ALIKE, ALONE])] * 2)
    def test_advice_never_contradicts_an_answer(self, speed: Claim, cost: Claim) -> None:
        sentence = judge(SD, BASE, speed, cost).sentence
        answers = {speed.answer, cost.answer}
        assert ("eep it on" in sentence) == (Answer.BETTER in answers)
        only_worse = Answer.WORSE in answers and Answer.BETTER not in answers
        assert ("urn it off" in sentence) == only_worse
