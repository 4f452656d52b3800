"""Drift: found where it is, and rarely where it is not."""

from __future__ import annotations

import math

import numpy as np
import pytest

from spectap.analysis.compared.drift import drifts
from spectap.analysis.keys import CellKey
from spectap.analysis.summary import Drift
from spectap.record import Record
from tests.spectap import samples

BASELINES = {"Base": None, "SD": "Base"}
CASES = ("a", "b", "c")


def run(
    seed: int, base: float = 1.0, sd: float = 1.0, rounds: int = 8
) -> dict[CellKey, list[Record]]:
    """Times that change by these factors from the first round to the last, give or take 2 %."""
    chance = np.random.default_rng(seed)
    found: dict[CellKey, list[Record]] = {}
    for number in range(1, rounds + 1):
        minute = chance.normal(0, 0.02)
        for case in CASES:
            for variant, change in (("Base", base), ("SD", sd)):
                own = minute + chance.normal(0, 0.02)
                pace = math.exp(math.log(change) * (number - 1) / (rounds - 1) + own)
                record = samples.record(
                    variant=variant, case=case, round=number, chunks=((0.1, 1), (0.1 + pace, 7))
                )
                found.setdefault(CellKey(case, "", variant), []).append(record)
    return found


def found(drifted: tuple[Drift, ...]) -> dict[tuple[str, str | None], bool]:
    return {(one.variant, one.baseline): one.found for one in drifted}


def test_what_both_sides_share_is_in_no_speed_up() -> None:
    drifted = drifts(run(1, base=1.3, sd=1.3), BASELINES)
    assert found(drifted) == {("Base", None): True, ("SD", None): True, ("SD", "Base"): False}
    assert drifted[0].change.point == pytest.approx(1.3, rel=0.1)
    assert drifted[0].rounds[0][1] < 1 < drifted[0].rounds[-1][1]


def test_a_speed_up_that_shrinks_is_found() -> None:
    (speed_up,) = (one for one in drifts(run(2, sd=1.25), BASELINES) if one.baseline)
    assert speed_up.found
    assert speed_up.change.point == pytest.approx(1 / 1.25, rel=0.1)


def test_it_is_rarely_found_where_there_is_none() -> None:
    runs = 300
    wrong = sum(any(found(drifts(run(seed), BASELINES)).values()) for seed in range(runs))
    # 5 % of 300 are 15; more than 26 have a chance of one in a thousand.
    assert wrong <= 26


def test_a_test_case_that_ended_early_does_not_hide_what_the_others_show() -> None:
    cells = run(2, sd=1.25, rounds=12)
    for variant in BASELINES:
        ended = CellKey("a", "", variant)
        cells[ended] = [one for one in cells[ended] if one.round <= 4]
    (speed_up,) = (one for one in drifts(cells, BASELINES) if one.baseline)
    assert speed_up.found
    assert len(speed_up.rounds) == 12


def test_four_rounds_are_too_few_for_a_line() -> None:
    assert drifts(run(1, rounds=4), BASELINES) == ()
    assert drifts({}, BASELINES) == ()
