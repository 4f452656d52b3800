"""The simulated runs are what their worlds say."""

from __future__ import annotations

from itertools import groupby
from statistics import fmean

import numpy as np
import pytest

from spectap import metrics
from spectap.record import Record
from tests.bench.simulation import SIDES, records, truths
from tests.bench.worlds import World


def pace(record: Record) -> float:
    """Its time per output token, in seconds."""
    seconds = metrics.time_per_output_token(record)
    assert seconds is not None
    return seconds


def logs(world: World) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """The logarithm of each time per output token, over round, case, side and request."""
    shape = (world.most_rounds, len(world.speedups), len(SIDES), world.requests)
    return np.log([pace(record) for record in records(world, 0)]).reshape(shape)


def test_the_same_number_is_the_same_run() -> None:
    world = World("any", wave=0.05, failures=0.1)
    assert records(world, 3) == records(world, 3)
    assert records(world, 3) != records(world, 4)


def test_without_scatter_every_request_shows_the_truth() -> None:
    still = World("still", request=0.0, speedups=(1.0, 1.3))
    for (case, _), truth in truths(still).items():
        own = [record for record in records(still, 0) if record.case == case]
        base, variant = ([r for r in own if r.variant == side] for side in SIDES)
        slow, fast = (
            fmean(r.end / (r.output_tokens or 1) for r in side) for side in (base, variant)
        )
        assert slow / fast == pytest.approx(truth.speed, rel=0.001)
        assert fmean(map(pace, variant)) == pytest.approx(truth.token_seconds)


@pytest.mark.parametrize("concurrency", [1, 3, 4])
def test_slots_are_busy_and_turns_do_not_overlap(concurrency: int) -> None:
    world = World("any", wave=0.1, failures=0.1, requests=8, concurrency=concurrency)
    ended = -1.0
    for _, turn in groupby(records(world, 0), key=lambda record: (record.round, record.case)):
        requests = list(turn)
        assert min(record.sent for record in requests) > ended
        ended = max(record.sent + record.end for record in requests)
        for side in SIDES:
            own = [record for record in requests if record.variant == side]
            for at in {record.sent for record in own}:
                in_flight = sum(one.sent <= at < one.sent + one.end - 1e-9 for one in own)
                assert in_flight <= concurrency
            assert sum(record.sent == requests[0].sent for record in own) == concurrency


def test_what_sides_and_waves_share_is_the_same_for_them() -> None:
    of_round = logs(World("any", request=0.0, round=0.1))
    assert np.ptp(of_round, axis=(2, 3)).max() == pytest.approx(0, abs=1e-9)
    of_wave = logs(World("any", request=0.0, wave=0.1, requests=8))
    assert np.ptp(of_wave[..., :4], axis=3).max() == pytest.approx(0, abs=1e-9)
    assert np.ptp(of_wave, axis=3).min() > 0
