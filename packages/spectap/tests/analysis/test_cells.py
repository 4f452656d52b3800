"""One cell by itself: goodput and its interval, a load that lags behind its schedule, a queue."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from benchmarks.queueing import Server, recognised
from spectap.analysis.cells import goodput, share_interval
from spectap.analysis.claims import obstacle
from spectap.analysis.estimate import ALPHA
from spectap.analysis.loads import lateness
from spectap.analysis.summarise import summarise_ledgers
from spectap.analysis.verdicts import Finding
from spectap.inputs.config import Objectives
from spectap.records.record import Record
from tests import samples

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


def test_what_misses_a_limit() -> None:
    failed, single = samples.record(error="reset"), samples.record(chunks=((0.2, 1),))
    assert share([samples.record()] * 9 + [failed], GENEROUS) == (0.9, True)
    assert share([samples.record()] * 8 + [failed] * 2, GENEROUS) == (0.8, False)
    # An answer of one token has no time per token.
    assert share([replace(single, output_tokens=1)], Objectives(tpot_p90_ms=1)) == (1.0, True)


@pytest.mark.parametrize("changes", [{"output_tokens": None}, {"choices": 2}])
def test_an_answer_without_its_time_per_token_is_in_no_share_of_it(changes: dict[str, Any]) -> None:
    unknown = samples.record(per_chunk=False, **changes)
    bad = samples.record(end=9.0, chunks=((0.2, 1), (9.0, 7)))
    assert share([unknown, bad], Objectives(tpot_p90_ms=30)) == (0.0, False)
    assert share([unknown, bad], Objectives(e2e_p90_ms=600)) == (0.5, False)
    assert goodput([unknown], Objectives(tpot_p90_ms=30), ALPHA) is None


def test_the_interval_of_a_share() -> None:
    """Rounds that differ as a whole make it wider, and so do requests in flight together."""
    alike = [[True] * 9 + [False]] * 10
    uneven = [[True] * 10] * 9 + [[False] * 10]
    narrow, wide, together = (
        share_interval(rounds, in_flight, ALPHA) or (0, 0)
        for rounds, in_flight in ((alike, 1), (uneven, 1), (alike, 8))
    )
    assert wide[0] < narrow[0] < 0.9 < narrow[1] < wide[1]
    assert together[0] < narrow[0] < narrow[1] < together[1]
    assert share_interval(alike[:2], 1, ALPHA) is None


RATE = 10.0
SHARED = ((1, False), (16, False), (6, True))


def sent(late: list[float]) -> list[Record]:
    """Requests that were sent so many seconds late."""
    return [samples.record(sent=100 + each, due=100.0) for each in late]


def test_a_blocked_driver_is_marked() -> None:
    """Nothing is sent for 0.3 s; what was due then goes out at once."""
    times = np.cumsum(np.random.default_rng(1).exponential(1 / RATE, 300))
    late = [max(0.0, 10.3 - time) if time >= 10 else 0.0 for time in times]
    assert lateness(sent(late), RATE)[1]


@pytest.mark.parametrize(
    ("rate", "late", "marked"),
    [
        (64, 0.004, False),  # less than is called a lag at any rate
        (64, 0.006, True),
        (10, 0.009, False),  # a tenth of the mean gap
        (10, 0.011, True),
        (0.1, 0.06, True),  # as long as a step
        (None, 0.04, False),
    ],
)
def test_the_bound_follows_the_rate(rate: float | None, late: float, marked: bool) -> None:
    assert lateness(sent([late] * 30), rate)[1] == marked
    # The way from the tap to the server is no lag of the load.
    on_the_way = [replace(r, came=r.sent, sent=r.sent + 0.2) for r in sent([late] * 30)]
    assert lateness(on_the_way, rate)[1] == marked


@pytest.mark.parametrize(
    ("server", "queues"),
    [
        (Server(9, 8, requests=18), True),
        (Server(6, 4, open=True, requests=24), True),
        # Requests that only share a server.
        *((Server(load, None, is_open, 0.4, 0.5, requests=16), False) for load, is_open in SHARED),
    ],
)
def test_a_queue_is_seen_without_the_batch(server: Server, queues: bool) -> None:
    """``benchmarks.queueing`` says how often, in more worlds."""
    assert recognised(server, 0) is queues


@pytest.mark.parametrize(("lag", "finding"), [(0.02, None), (0.03, Finding.CLIENT)])
def test_a_slow_client_is_an_obstacle(lag: float, finding: Finding | None) -> None:
    """Of requests of half a second, 5 % are 25 ms."""
    fine, slowed = (
        summarise_ledgers([samples.record(lag=seconds)] * 3).cases[0].cells[0]
        for seconds in (0.0, lag)
    )
    verdict = obstacle(slowed, fine)
    assert (verdict and verdict.finding) == finding
