"""How load points and estimates are written."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectap.analysis.estimates.intervals import Interval
from spectap.analysis.summary import Schedule
from spectap.config import Config
from spectap.load_points import LoadPoint
from spectap.report import phrases
from tests.spectap import samples


def points(*concurrencies: int, rates: tuple[float, ...] = ()) -> list[LoadPoint]:
    closed = [LoadPoint(concurrency=number, requests=4) for number in concurrencies]
    return closed + [LoadPoint(rate=rate, requests=4) for rate in rates]


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
    assert phrases.load_points(given) == words


def test_one_load_point_is_written_as_it_writes_itself() -> None:
    for point in points(4, rates=(0.5, 1)):
        assert phrases.load_points([point]) == str(point)


def test_in_a_table_a_rate_is_told_from_a_concurrency() -> None:
    assert [phrases.short_load(point) for point in (*points(16, rates=(0.5,)), None)] == [
        "16",
        "0.5/s",
        "-",
    ]


@pytest.mark.parametrize(("requests", "words"), [((4, 4), "4"), ((40, 4, 8), "4 to 40")])
def test_requests_of_a_turn(requests: tuple[int, ...], words: str) -> None:
    load = samples.settings()["load"]
    ladder = [{"concurrency": n, "requests": amount} for n, amount in enumerate(requests, 1)]
    changed = {key: load[key] for key in load if key not in ("concurrency", "requests")}
    config = Config.model_validate(samples.settings(load=changed | {"points": ladder}))
    assert phrases.requests(config.load) == words


def test_a_cell_is_marked_for_its_queue_and_for_its_schedule() -> None:
    late, kept = (Schedule(0.001, 0.2, 0.3, lagging) for lagging in (True, False))
    assert phrases.load_mark(samples.cell("SD")) == ""
    assert phrases.load_mark(samples.cell("SD", schedule=kept)) == ""
    both = samples.cell("SD", schedule=late, queued=True)
    assert (phrases.load_mark(both), phrases.load_letters(both)) == ("queue, lagged", "ql")


@given(st.floats(0, 1))
def test_a_probability_is_never_quite_all_or_nothing(part: float) -> None:
    text = phrases.probability(part)
    number = int(re.sub(r"\D", "", text))
    assert 1 <= number <= 99
    if text[0] not in "<>":
        assert abs(100 * part - number) <= 0.5 + 1e-9


@pytest.mark.parametrize(
    ("interval", "written"),
    [
        (None, ("-", "")),
        (Interval(2.9, 2.7, 3.1), ("2.9x", "2.7-3.1")),
        (Interval(2.912, 2.912, 2.912), ("2.91x", "")),
    ],
)
def test_a_prediction_has_bounds_if_it_has_any_width(
    interval: Interval | None, written: tuple[str, str]
) -> None:
    estimate = phrases.prediction(interval)
    assert (estimate.figure, estimate.bounds) == written


def test_more_tokens_a_second_are_a_lower_cost() -> None:
    tripled = Interval(3.0, 2.5, 4.0)
    assert str(phrases.cost(tripled, priced=True)) == "−67 % (−75 to −60 %)"  # noqa: RUF001 (a minus sign)
    assert phrases.cost(tripled, priced=False) == phrases.speed(tripled)
    assert str(phrases.cost(None, priced=True)) == "-"
