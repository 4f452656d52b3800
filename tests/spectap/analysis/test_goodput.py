"""Goodput: what counts as good, and how sure the share is."""

from __future__ import annotations

import numpy as np
import pytest

from spectap.analysis.cells import goodput, share_interval
from spectap.analysis.estimates.estimate import ALPHA
from spectap.config import Objectives
from spectap.record import Record
from tests.spectap import samples

# The sample has its first token after 200 ms, a token each 200/7 ms, and ends after 500 ms.
GENEROUS = Objectives(ttft_p90_ms=300, tpot_p90_ms=30, e2e_p90_ms=600)


def share(records: list[Record], objectives: Objectives) -> tuple[float, bool]:
    attained = goodput(records, objectives, ALPHA)
    assert attained is not None
    return attained.share, attained.met


@pytest.mark.parametrize(
    ("limits", "good"),
    [
        ({}, True),
        ({"ttft_p90_ms": 200}, True),
        ({"ttft_p90_ms": 199}, False),
        ({"tpot_p90_ms": 28}, False),
        ({"e2e_p90_ms": 499}, False),
    ],
)
def test_every_limit_must_hold(limits: dict[str, float], good: bool) -> None:
    objectives = GENEROUS.model_copy(update=limits)
    assert share([samples.record()], objectives) == (float(good), good)


def test_a_failed_request_is_not_good() -> None:
    failed = samples.record(error="reset")
    assert share([samples.record()] * 9 + [failed], GENEROUS) == (0.9, True)
    assert share([samples.record()] * 8 + [failed] * 2, GENEROUS) == (0.8, False)


def test_an_answer_of_one_token_has_no_time_per_token_to_miss() -> None:
    single = samples.record(chunks=((0.2, 1),), output_tokens=1)
    assert share([single], Objectives(tpot_p90_ms=1)) == (1.0, True)


class TestInterval:
    def test_rounds_that_differ_as_a_whole_make_it_wider(self) -> None:
        alike = [[True] * 9 + [False]] * 10
        uneven = [[True] * 10] * 9 + [[False] * 10]
        narrow, wide = (share_interval(rounds, 1, ALPHA) or (0, 0) for rounds in (alike, uneven))
        assert wide[0] < narrow[0] < 0.9 < narrow[1] < wide[1]

    def test_requests_in_flight_together_count_less(self) -> None:
        chance = np.random.default_rng(1)
        rounds = [[bool(met) for met in chance.random(40) < 0.8] for _ in range(6)]
        alone, together = (share_interval(rounds, number, ALPHA) or (0, 0) for number in (1, 8))
        assert together[0] < alone[0] < alone[1] < together[1]
