"""One number for several test cases, and what a matched baseline explains."""

from __future__ import annotations

import math

import pytest

from spectap.analysis.contrasts import Question
from spectap.analysis.summarise import overall
from tests.spectap.analysis.test_contrasts import paced

STEADY = [1.0, 1.0, 1.0, 1.0]


def test_it_is_the_geometric_mean_of_the_cases() -> None:
    sides = {
        "four times": (paced(0.25, STEADY), paced(1.0, STEADY)),
        "alike": (paced(1.0, STEADY), paced(1.0, STEADY)),
    }
    estimates = overall(sides)
    assert math.exp(estimates[Question.SPEED].log) == pytest.approx(2)
    assert math.exp(estimates[Question.COST].log) == pytest.approx(2)


def test_a_case_counts_once_however_many_rounds_it_has() -> None:
    sides = {
        "four times": (paced(0.25, STEADY * 5), paced(1.0, STEADY * 5)),
        "alike": (paced(1.0, STEADY), paced(1.0, STEADY)),
    }
    assert math.exp(overall(sides)[Question.SPEED].log) == pytest.approx(2)


def test_what_differs_from_round_to_round_for_all_cases_is_in_its_error() -> None:
    uneven = [0.8, 1.2, 0.9, 1.1]
    single = {"a": (paced(0.5, uneven), paced(1.0, STEADY))}
    alike = single | {"b": single["a"], "c": single["a"]}
    # Three cases that share their rounds' luck are no surer than one.
    assert overall(alike)[Question.SPEED].error == pytest.approx(
        overall(single)[Question.SPEED].error
    )


def test_it_is_no_surer_than_the_test_case_with_the_fewest_rounds() -> None:
    uneven = [0.8, 1.2, 0.9, 1.1]
    sides = {
        "long": (paced(0.5, uneven * 5), paced(1.0, STEADY * 5)),
        "short": (paced(0.5, uneven[:3]), paced(1.0, STEADY[:3])),
    }
    assert overall(sides)[Question.SPEED].units == 3
