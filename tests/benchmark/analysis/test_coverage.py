"""Intervals and verdicts hold what they say: ``make bench-statistics`` in short.

A bound is a quantile of the binomial distribution: a method that keeps 95 %, and that is wrong in
5 % of reports, would miss it in one of ten thousand such simulations. The seeds are fixed.
"""

from __future__ import annotations

import pytest

from tests.bench.percentile_bootstrap import bootstrapped
from tests.bench.simulation import records
from tests.bench.statements import COST, SPEED
from tests.bench.trials import Trials, likely, report
from tests.bench.worlds import Neighbour, World

WORLDS = (
    World("waves", wave=0.05),
    World("shared rounds", request=0.02, wave=0.15, round=0.1, rounds=3, requests=8),
    World("3x", request=0.1, wave=0.1, round=0.05, rounds=8, speedups=(3.0,) * 10),
    World("neighbour", neighbour=Neighbour(scatter=0.1, seconds=180)),
    World("failures", wave=0.05, failures=0.05),
)
REPORTS = 30
SELDOM = 0.0001


@pytest.fixture(scope="module", params=WORLDS, ids=lambda world: world.name)
def trials(request: pytest.FixtureRequest) -> Trials:
    world: World = request.param
    return Trials(world, [report(world, number) for number in range(REPORTS)])


@pytest.mark.parametrize("figure", [SPEED, COST])
def test_intervals_hold_the_truth_as_often_as_they_say(trials: Trials, figure: str) -> None:
    held = trials.held(figure)
    assert len(held) == 10 * REPORTS
    assert sum(held) >= likely(SELDOM, len(held), 0.95)


def test_a_report_is_seldom_wrong(trials: Trials) -> None:
    assert trials.wrong <= likely(1 - SELDOM, REPORTS, 0.05)


def test_requests_resampled_as_if_independent_would_fail() -> None:
    """The bound above finds what it is there for."""
    wide_waves = World("wide waves", request=0.02, wave=0.15, rounds=3, requests=8)
    held = [
        interval.low <= 1 <= interval.high
        for number in range(20)
        for interval in bootstrapped(records(wide_waves, number))
    ]
    assert sum(held) < likely(SELDOM, len(held), 0.95)
