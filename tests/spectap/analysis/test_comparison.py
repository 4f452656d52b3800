"""A caution names the loads that it is about, and no others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from spectap.analysis.comparison import cautions, decoding
from spectap.analysis.estimates.intervals import Interval
from spectap.analysis.summary import (
    Answer,
    Cell,
    Claim,
    Comparison,
    Finding,
    Schedule,
    Verdict,
)
from spectap.load_points import LoadPoint
from tests.spectap import samples

LOADS = (1, 4, 8)
LATE = Schedule(p50=0.0, p99=0.2, worst=0.3, lagging=True)
SLOWER = Comparison(
    baseline="Base",
    by_time_per_output_token=Interval(2, 1.9, 2.1),
    by_end_to_end=None,
    by_throughput=None,
    speed=Claim(Interval(0.5, 0.4, 0.6), Answer.WORSE, False, 0.1, 0.1, None),
    cost=None,
    verdict=Verdict(Finding.SLOWER, ""),
)


def at(load: float, *, is_open: bool = False) -> LoadPoint:
    if is_open:
        return LoadPoint(rate=load, requests=6)
    return LoadPoint(concurrency=int(load), requests=6)


def queue(loads: Sequence[int], *more: Cell) -> list[str]:
    cells = [samples.cell("SD", load=at(load), requests=18, queued=load in loads) for load in LOADS]
    return [*cautions([*cells, *more], at=True)]


@pytest.mark.parametrize(
    ("loads", "phrase"),
    [
        ((8,), "from 8 at once"),
        ((4, 8), "from 4 at once"),
        ((1, 4, 8), "from 1 at once"),
        ((4,), "at 4 at once"),
        ((1, 8), "at 1 and 8 at once"),
        ((1, 4), "at 1 and 4 at once"),
    ],
)
def test_from_a_load_on_is_every_measured_load_from_there(
    loads: Sequence[int], phrase: str
) -> None:
    assert queue(loads) == [f"SD requests queue {phrase}"]


def test_failures_are_at_their_loads() -> None:
    """Were they "from" one, the load would seem to be their cause."""
    cells = [
        samples.cell("SD", load=at(load), requests=18, errors=3 * (load > 1)) for load in LOADS
    ]
    assert [*cautions(cells, at=True)] == ["6 of 36 SD requests failed at 4 and 8 at once"]
    assert [*cautions(cells, at=False)] == ["6 of 36 SD requests failed"]


def test_loads_at_which_decoding_misleads() -> None:
    cells = [
        samples.cell("SD", load=at(load), comparison=SLOWER if load > 1 else None) for load in LOADS
    ]
    sentence = "SD requests take 2.00x as long, though SD decodes 2.00x as fast"
    assert [*decoding(cells, at=True)] == [f"{sentence} from 4 at once"]
    cells[-1] = replace(cells[-1], comparison=None)
    assert [*decoding(cells, at=True)] == [f"{sentence} at 4 at once"]
