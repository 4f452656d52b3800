"""What the load points of one kind say together."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmark.analysis.summary import Crossover, Ladder
from benchmark.load_points import LoadPoint
from benchmark.report import ladders

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
            "SD is faster up to 4 requests at once and slower from 8",
            ("SD", "is faster at low loads and slower at high ones"),
        ),
        (
            Crossover(1.4, 1, 2),
            "SD is faster up to 1 request at once and slower from 2",
            ("SD", "is faster at low loads and slower at high ones"),
        ),
        (Crossover(None, 8, None), "SD is faster at every load", ("SD", "is faster at every load")),
        (Crossover(None, None, 1), "SD is slower at every load", ("SD", "is slower at every load")),
        (
            Crossover(6, 4, None),
            "SD is faster up to 4 requests at once; above, that cannot be told",
            ("SD", "is faster at low loads"),
        ),
        (
            Crossover(1, None, 2),
            "SD is slower from 2 requests at once; below, that cannot be told",
            ("SD", "is slower at high loads"),
        ),
        (
            NOTHING,
            "Up to which load SD is faster cannot be told",
            ("up to which load it is faster", "cannot be told"),
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
    expected = f"is {said} at every load that has a verdict"
    assert ladders.exact(broken, found, ladders.SPEED) == f"SD {expected}"
    assert ladders.rough(broken, found, ladders.SPEED) == ("SD", expected)


def test_the_cost_and_the_throughput_have_verbs_of_their_own() -> None:
    found = Crossover(3, 2, 4)
    said = [ladders.exact(ladder(found), found, says) for says in (ladders.COST, ladders.TOGETHER)]
    assert said == [
        "SD costs less up to 2 requests at once and more from 4",
        "SD gets more tokens/s up to 2 requests at once and fewer tokens/s from 4",
    ]


def test_rates_are_requests_a_second() -> None:
    found = Crossover(0.7, 0.5, 1)
    rates = Ladder("SD", "Base", True, RATES, found, NOTHING, "")
    said = ladders.exact(rates, found, ladders.SPEED)
    assert said == "SD is faster up to 0.5 requests a second and slower from 1"
