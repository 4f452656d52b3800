"""A variant that changes while it is measured."""

import pytest

from benchmarks import simulation
from benchmarks.simulation import World
from spectap.analysis.summarise import summarise


@pytest.mark.parametrize(
    ("cases", "after", "change", "noted"),
    [
        pytest.param(4, 5, 0.4, ["SD"], id="the last round, in every case"),
        pytest.param(1, 3, 0.4, ["SD"], id="from the middle, in one case"),
        pytest.param(1, 5, 0.4, [], id="a round of one case is no half"),
        pytest.param(4, 3, 0.02, [], id="too little to matter"),
        pytest.param(4, 6, 0.4, [], id="nothing"),
    ],
)
def test_the_halves_of_a_run(cases: int, after: int, change: float, noted: list[str]) -> None:
    world = World("steady", request=0.01, wave=0.01, speedups=(1.0,) * cases)
    records = [
        simulation.slower(record, change)
        if record.variant == "SD" and record.round > after
        else record
        for record in simulation.records(world, 1)
    ]
    halves = summarise(simulation.configuration(world), records).halves
    assert [*halves] == noted
    assert all(speed.high < 0.95 for speed in halves.values())


def test_a_run_that_was_stopped_claims_less() -> None:
    """A true 1.1x is surely seen in all six rounds, and not if there were to be thirty."""
    whole, stopped = (
        World("1.1x", request=0.02, wave=0.02, speedups=(1.1,) * 2, rounds=rounds)
        for rounds in (6, 30)
    )
    six = [record for record in simulation.records(stopped, 1) if record.round <= 6]
    speeds = [
        [
            compared.speed.interval
            for case in summarise(simulation.configuration(world), six).cases
            for _, compared in case.compared
            if compared.speed
        ]
        for world in (whole, stopped)
    ]
    assert all(speeds)
    for of_whole, of_stopped in zip(*speeds, strict=True):
        assert of_stopped.low < of_whole.low < of_whole.high < of_stopped.high
