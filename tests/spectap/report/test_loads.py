"""How load points are written."""

from __future__ import annotations

import pytest

from spectap.analysis.summary import Schedule
from spectap.config import Config
from spectap.load_points import LoadPoint
from spectap.report import loads
from tests.spectap import samples


def points(*concurrencies: int, rates: tuple[float, ...] = ()) -> list[LoadPoint]:
    closed = [LoadPoint(concurrency=one, requests=4) for one in concurrencies]
    return closed + [LoadPoint(rate=one, requests=4) for one in rates]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (points(4), "concurrency 4"),
        (points(1, 2, 8), "concurrency 1, 2 and 8"),
        (points(rates=(1,)), "1 request a second"),
        (points(rates=(0.5, 2)), "0.5 and 2 requests a second"),
        (points(4, rates=(0.5,)), "concurrency 4, and 0.5 requests a second"),
    ],
)
def test_load_points_after_at(given: list[LoadPoint], words: str) -> None:
    assert loads.words(given) == words


def test_one_load_point_is_written_as_it_writes_itself() -> None:
    for point in points(4, rates=(0.5, 1)):
        assert loads.words([point]) == str(point)


def test_in_a_table_a_rate_is_told_from_a_concurrency() -> None:
    assert [loads.short(point) for point in (*points(16, rates=(0.5,)), None)] == [
        "16",
        "0.5/s",
        "-",
    ]


@pytest.mark.parametrize(("requests", "words"), [((4, 4), "4"), ((40, 4, 8), "4 to 40")])
def test_requests_of_a_turn(requests: tuple[int, ...], words: str) -> None:
    load = samples.settings()["load"]
    ladder = [{"concurrency": n, "requests": amount} for n, amount in enumerate(requests, 1)]
    config = Config.model_validate(samples.settings(load=load | {"points": ladder}))
    assert loads.requests(config.load) == words


def test_a_cell_is_marked_for_its_queue_and_for_its_schedule() -> None:
    late, kept = (Schedule(0.001, 0.2, 0.3, lagging) for lagging in (True, False))
    assert loads.mark(samples.cell("SD")) == ""
    assert loads.mark(samples.cell("SD", schedule=kept)) == ""
    both = samples.cell("SD", schedule=late, queued=True)
    assert (loads.mark(both), loads.letters(both)) == ("queue, lagged", "ql")
