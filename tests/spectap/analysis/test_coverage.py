"""Intervals and verdicts hold what they say: ``make bench-statistics`` in short.

A bound is a quantile of the binomial distribution: a method that keeps 95 %, and that is wrong in
5 % of reports, would miss it in one of ten thousand such simulations. The seeds are fixed.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from spectap.analysis.compared import prompts
from spectap.analysis.compared.claims import speed_up, values
from spectap.analysis.estimates.estimate import geometric_mean, jackknife
from spectap.analysis.keys import by_cell
from tests.bench.percentile_bootstrap import bootstrapped
from tests.bench.simulation import SIDES, records
from tests.bench.statements import COST, CROSSOVERS, GOODPUT, SPEED
from tests.bench.trials import Trials, likely, report
from tests.bench.worlds import Neighbour, World

WORLDS = (
    World("waves", wave=0.05),
    World("shared rounds", request=0.02, wave=0.15, round=0.1, rounds=3, requests=8),
    World("3x", request=0.1, wave=0.1, round=0.05, rounds=8, speedups=(3.0,) * 10),
    World("neighbour", neighbour=Neighbour(scatter=0.1, seconds=180)),
    World("failures", wave=0.05, failures=0.05),
    World(
        "prompts of each round",
        request=0.02,
        own_round=0.05,
        requests=8,
        prompts=164,
        prompt=0.03,
        speedups=(1.0,) * 5,
    ),
    World("the same prompts", own_round=0.05, prompts=12, prompt=0.2, speedups=(1.0,) * 5),
)
LOADS = (1, 2, 4, 8)
LADDERS = (
    World("between two loads", wave=0.05, ladder=LOADS, speedups=(1.5, 1.1, 0.9, 0.7) * 2),
    World("at a load", wave=0.05, ladder=LOADS, speedups=(1.2, 1.0, 0.9, 0.8) * 2),
    World("at none", wave=0.05, ladder=LOADS, speedups=(1.0,) * 8),
)
OBJECTIVE = World("objective", wave=0.05, round=0.05, limit=0.05, speedups=(1.0,) * 5)
REPORTS = 30
SELDOM = 0.0001


@pytest.fixture(scope="module", params=WORLDS, ids=lambda world: world.name)
def trials(request: pytest.FixtureRequest) -> Trials:
    world: World = request.param
    return Trials(world, [report(world, number) for number in range(REPORTS)])


@pytest.mark.parametrize("figure", [SPEED, COST])
def test_intervals_hold_the_truth_as_often_as_they_say(trials: Trials, figure: str) -> None:
    held = trials.held(figure)
    assert len(held) == len(trials.world.speedups) * REPORTS
    assert sum(held) >= likely(SELDOM, len(held), 0.95)


def test_a_report_is_seldom_wrong(trials: Trials) -> None:
    assert trials.wrong <= likely(1 - SELDOM, REPORTS, 0.05)


@pytest.mark.parametrize("world", LADDERS, ids=lambda world: world.name)
def test_a_crossover_is_where_it_is_said_to_be(world: World) -> None:
    found = Trials(world, [report(world, number) for number in range(REPORTS)])
    assert found.lost <= likely(1 - SELDOM, REPORTS, 0.05)
    assert found.wrong <= likely(1 - SELDOM, REPORTS, 0.05)
    for figure in CROSSOVERS:
        assert len(found.held(figure)) == 2 * REPORTS


def test_a_clear_crossover_is_found() -> None:
    clear = replace(LADDERS[0], wave=0.01, request=0.01)
    for number in range(5):
        for one in report(clear, number).statements:
            if one.figure == CROSSOVERS[0]:
                assert one.interval is not None
                assert (one.interval.low, one.interval.high) == (2, 4)
                assert 2 < one.interval.point < 4


def test_goodput_is_within_its_interval() -> None:
    found = Trials(OBJECTIVE, [report(OBJECTIVE, number) for number in range(REPORTS)])
    held = found.held(GOODPUT)
    assert len(held) == 5 * REPORTS
    assert sum(held) >= likely(SELDOM, len(held), 0.95)


def test_prompts_taken_as_independent_would_fail() -> None:
    """The bound above finds what it is there for."""
    rounds_scatter = World("rounds", own_round=0.05, prompts=164, speedups=(1.0,))
    held = []
    for number in range(100):
        sides = by_cell(records(rounds_scatter, number))
        base, own = (next(r for key, r in sides.items() if key.variant == side) for side in SIDES)
        sent = prompts.sendings(own, base)
        ratios = values(speed_up, sent)
        estimate = jackknife([*ratios.values()], geometric_mean)
        assert estimate is not None
        interval = estimate.interval()
        held.append(interval.low <= 1 <= interval.high)
    assert sum(held) < likely(SELDOM, len(held), 0.95)


def test_requests_resampled_as_if_independent_would_fail() -> None:
    """The bound above finds what it is there for."""
    wide_waves = World("wide waves", request=0.02, wave=0.15, rounds=3, requests=8)
    held = [
        interval.low <= 1 <= interval.high
        for number in range(20)
        for interval in bootstrapped(records(wide_waves, number))
    ]
    assert sum(held) < likely(SELDOM, len(held), 0.95)
