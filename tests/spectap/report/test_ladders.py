"""What the load points of one kind say together."""

from __future__ import annotations

from dataclasses import replace

import pytest

from spectap.analysis.summary import Crossover, Ladder
from spectap.load_points import LoadPoint
from spectap.report import ladders

POINTS = tuple(LoadPoint(concurrency=one, requests=4) for one in (1, 2, 4, 8))
RATES = tuple(LoadPoint(rate=one, requests=4) for one in (0.5, 1))
NOTHING = Crossover(None, None, None)


def ladder(speed: Crossover, cost: Crossover = NOTHING) -> Ladder:
    return Ladder("SD", "Base", False, POINTS, speed, cost, "")


@pytest.mark.parametrize(
    ("found", "exact", "rough"),
    [
        (
            Crossover(5.6, 4, 8),
            "SD answers requests faster up to 4 at once and slower from 8",
            ("SD", "answers requests faster at low loads and slower at high ones"),
        ),
        (
            Crossover(1.4, 1, 2),
            "SD answers requests faster up to 1 at once and slower from 2",
            ("SD", "answers requests faster at low loads and slower at high ones"),
        ),
        (
            Crossover(None, 8, None),
            "SD answers requests faster at every load",
            ("SD", "answers requests faster at every load"),
        ),
        (
            Crossover(None, None, 1),
            "SD answers requests slower at every load",
            ("SD", "answers requests slower at every load"),
        ),
        (
            Crossover(6, 4, None),
            "SD answers requests faster up to 4 at once; above, that cannot be told",
            ("SD", "answers requests faster at low loads"),
        ),
        (
            Crossover(1, None, 2),
            "SD answers requests slower from 2 at once; below, that cannot be told",
            ("SD", "answers requests slower at high loads"),
        ),
        (
            NOTHING,
            "Up to which load SD answers requests faster cannot be told",
            ("up to which load it answers requests faster", "cannot be told"),
        ),
    ],
)
def test_a_crossover_in_words(found: Crossover, exact: str, rough: tuple[str, str]) -> None:
    assert ladders.exact(ladder(found), found, ladders.SPEED) == exact
    assert ladders.rough(ladder(found), found, ladders.SPEED) == rough


@pytest.mark.parametrize(
    ("found", "said"), [(Crossover(None, 8, None), "faster"), (Crossover(None, None, 1), "slower")]
)
def test_loads_without_a_verdict_are_not_among_every_load(found: Crossover, said: str) -> None:
    broken = replace(ladder(found), whole=False)
    expected = f"answers requests {said} at every load that has a verdict"
    assert ladders.exact(broken, found, ladders.SPEED) == f"SD {expected}"
    assert ladders.rough(broken, found, ladders.SPEED) == ("SD", expected)


def test_a_speed_without_those_that_failed_is_not_that_of_every_load() -> None:
    found = Crossover(None, 8, None)
    broken = replace(ladder(found, found), failed=True)
    expected = "answers requests faster wherever they succeed"
    assert ladders.exact(broken, found, ladders.SPEED) == f"SD {expected}"
    assert ladders.rough(broken, found, ladders.SPEED) == ("SD", expected)
    # Failed requests take time and bring no tokens, so the cost has them in it.
    assert ladders.exact(broken, found, ladders.COST) == "SD costs less at every load"


def test_the_cost_and_the_throughput_have_verbs_of_their_own() -> None:
    found = Crossover(3, 2, 4)
    said = [ladders.exact(ladder(found), found, says) for says in (ladders.COST, ladders.TOGETHER)]
    assert said == [
        "SD costs less up to 2 at once and more from 4",
        "SD gets more tokens/s up to 2 at once and fewer tokens/s from 4",
    ]


def test_rates_are_requests_a_second() -> None:
    found = Crossover(0.7, 0.5, 1)
    rates = Ladder("SD", "Base", True, RATES, found, NOTHING, "")
    said = ladders.exact(rates, found, ladders.SPEED)
    assert said == "SD answers requests faster up to 0.5 a second and slower from 1"
