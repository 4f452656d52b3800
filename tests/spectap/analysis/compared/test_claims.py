"""Comparisons: what cancels between two sides of a round, and which claims hold together."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectap.analysis.compared import claims
from spectap.analysis.compared.claims import Question, holm
from spectap.analysis.keys import CellKey
from spectap.load_points import LoadPoint
from spectap.record import Record
from tests.spectap import samples

P_VALUES = st.lists(st.floats(0, 1), min_size=1, max_size=20).map(lambda p: dict(enumerate(p)))


CELL = CellKey("counting", "", "SD")


def paced(scale: float, factors: list[float], requests: int = 4) -> list[Record]:
    """A round for each factor, in which each request takes ``scale`` times that factor."""
    return [
        samples.record(
            round=number,
            request=f"{number}-{index}",
            sent=1e9 + 1000 * number,
            chunks=tuple((scale * factor * at, tokens) for at, tokens in ((2, 1), (3, 4), (4, 3))),
            end=scale * factor * 5,
        )
        for number, factor in enumerate(factors, start=1)
        for index in range(requests)
    ]


def test_what_both_sides_of_a_round_share_cancels() -> None:
    minutes = [1.0, 1.7, 0.6, 1.2]
    found = claims.contrast(paced(0.5, minutes), paced(1.0, minutes))
    for estimate in (found.time_per_output_token, found.end_to_end, found.together):
        assert estimate is not None
        assert estimate.log == pytest.approx(math.log(2))
        assert estimate.error == pytest.approx(0, abs=1e-12)
    assert found.rounds == 4


def test_the_speed_up_is_the_geometric_mean_over_rounds() -> None:
    found = claims.contrast(paced(1.0, [1, 2, 4]), paced(1.0, [1, 1, 1]))
    assert found.throughput is not None
    assert found.throughput.log == pytest.approx(-math.log(2))
    assert found.throughput.units == 3


@pytest.mark.parametrize(
    "point", [LoadPoint(concurrency=4, requests=8), LoadPoint(rate=0.5, requests=8)]
)
def test_the_speed_of_a_request_has_its_first_token_in_it(point: LoadPoint) -> None:
    """Decoding takes half the time, and the first token makes the whole twice as long."""
    minutes = [1.0, 1.1, 0.9]
    base = paced(1.0, minutes)
    own = [
        replace(r, chunks=tuple((r.end + at / 2, n) for at, n in r.chunks), end=2 * r.end)
        for r in base
    ]
    found = claims.contrast(own, base, point=point)
    assert found.time_per_output_token is not None
    assert math.exp(found.time_per_output_token.log) == pytest.approx(2)
    assert math.exp(found.answers[Question.SPEED].log) == pytest.approx(1 / 2)


def test_one_stalled_request_does_not_decide_a_round() -> None:
    own, baseline = paced(1.0, [1, 1, 1]), paced(1.0, [1, 1, 1])
    stalled = [replace(own[0], chunks=((2.0, 1), (300.0, 7)), end=301.0), *own[1:]]
    found = claims.contrast(stalled, baseline)
    assert found.throughput is not None
    assert found.throughput.log == pytest.approx(0)


def test_a_round_without_an_answer_on_one_side_is_no_unit() -> None:
    own, baseline = paced(1.0, [1, 1, 1, 1]), paced(1.0, [1, 1, 1, 1])
    failed = [replace(r, error="reset", output_tokens=None) if r.round == 2 else r for r in own]
    found = claims.contrast(failed, baseline)
    assert found.rounds == 4
    assert found.throughput is not None
    assert found.throughput.units == 3
    # The time of a round in which all failed is paid for.
    assert found.together is not None
    assert found.together.units == 4
    assert math.exp(found.together.log) == pytest.approx(3 / 4)


def test_answers_in_one_piece_have_no_time_per_token() -> None:
    whole = [replace(r, stream=False, per_chunk=False, chunks=()) for r in paced(1.0, [1, 1, 1])]
    found = claims.contrast(whole, whole)
    assert found.time_per_output_token is None
    assert found.answers[Question.SPEED] is found.throughput is not None


class TestHolm:
    def test_the_textbook(self) -> None:
        found = holm({"a": 0.01, "b": 0.04, "c": 0.03, "d": 0.005}, 0.05, 4)
        assert found.decided == {"a", "d"}
        assert found.level == pytest.approx(0.05 / 2)

    @given(P_VALUES)
    def test_it_decides_at_least_what_bonferroni_does(self, p_values: dict[int, float]) -> None:
        decided = holm(p_values, 0.05, len(p_values)).decided
        assert decided >= {key for key, p in p_values.items() if p <= 0.05 / len(p_values)}
        assert all(p_values[key] <= 0.05 for key in decided)

    @given(P_VALUES, st.integers(0, 5))
    def test_claims_that_could_not_be_made_count(
        self, p_values: dict[int, float], more: int
    ) -> None:
        fewer = holm(p_values, 0.05, len(p_values)).decided
        assert holm(p_values, 0.05, len(p_values) + more).decided <= fewer

    def test_a_wrong_claim_is_as_rare_as_it_says(self) -> None:
        chance = np.random.default_rng(3)
        runs = 4000
        # Three claims are true, whose p-values are tiny, and seven are not.
        wrong = 0
        for p_values in chance.uniform(size=(runs, 10)):
            p_values[:3] *= 1e-6
            wrong += any(key >= 3 for key in holm(dict(enumerate(p_values)), 0.05, 10).decided)
        assert 0.03 < wrong / runs < 0.06


def test_two_questions_are_two_claims() -> None:
    minutes = [1.0, 1.1, 0.9, 1.05]
    faster = claims.contrast(paced(0.5, minutes), paced(1.0, minutes[::-1]))
    found = claims.decide({CELL: faster}, 0.05, claims=2)
    assert found.decided == {(CELL, question) for question in Question}
