"""A run from before variants had fields of their own: its figures must come out the same."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from spectap.report import results

EARLIER = Path(__file__).parents[1] / "earlier_run"

Place = tuple[str | int, ...]

POSITIONS = {"base": 0, "speculative": 1}
MEASURES = {
    "ttft": "TTFT",
    "time_per_output_token": "TimePerOutputToken",
    "inter_chunk": "InterChunkLatency",
    "end_to_end": "EndToEndLatency",
    "throughput": "RequestOutputThroughput",
    "output_tokens": "OutputTokens",
}
# Sentences may be worded anew; what they are made of may not change.
WORDED = {"sentence", "notes"}


def leaves(content: Any, place: Place = ()) -> Iterator[tuple[Place, Any]]:
    """Every value of a JSON document that holds no other, with the way to it."""
    if isinstance(content, dict):
        for name, value in content.items():
            yield from leaves(value, (*place, name))
    elif isinstance(content, list):
        for number, value in enumerate(content):
            yield from leaves(value, (*place, number))
    else:
        yield place, content


def today(place: Place) -> Place:
    """Where the value of an earlier summary stands in one of today."""
    match place:
        case ("concurrency",):
            return ("loads", 0, "concurrency")
        case ("cases", case, "base" | "speculative" as variant, *rest):
            return ("cases", case, "cells", POSITIONS[variant], *of_cell(*rest))
        case ("cases", case, str(name), *rest) if name == "verdict" or name.startswith("by_"):
            return ("cases", case, "cells", 1, "comparison", name, *rest)
    return place


def of_cell(first: str | int, *rest: str | int) -> Place:
    if first == "tally":
        return rest
    if first in MEASURES:
        return ("measures", MEASURES[str(first)], *rest)
    return (first, *rest)


def at(content: Any, place: Place) -> Any:
    for step in place:
        content = content[step]
    return content


def estimated(place: Place) -> bool:
    """Whether a value is part of an interval.

    These are made of rounds today, and were made of resampled requests, which are not independent.
    """
    return any(str(step).startswith("by_") or str(step).endswith("_interval") for step in place)


def charged(place: Place) -> bool:
    """Whether a value is of all requests together.

    The time at the end of a turn, in which slots stand empty, counted once.
    """
    return any(str(step).startswith(("tokens_per_second", "usd_per_million")) for step in place)


@pytest.fixture(scope="module")
def earlier() -> list[tuple[Place, Any]]:
    return [*leaves(json.loads((EARLIER / "summary.json").read_text(encoding="utf-8")))]


@pytest.fixture(scope="module")
def summary() -> Any:
    return json.loads(results.read(EARLIER).summary.to_json())


def test_every_figure_of_a_cell_is_equal_to_the_last_digit(
    earlier: list[tuple[Place, Any]], summary: Any
) -> None:
    kept = [
        (place, value)
        for place, value in earlier
        if not (WORDED & {*place} or estimated(place) or charged(place))
    ]
    assert sum(isinstance(value, (int, float)) for _, value in kept) > 200
    for place, value in kept:
        assert at(summary, today(place)) == value, place


def test_every_estimate_is_within_its_interval_of_today(
    earlier: list[tuple[Place, Any]], summary: Any
) -> None:
    points = [
        (place, value)
        for place, value in earlier
        if estimated(place) and not charged(place) and place[-1] == "point"
    ]
    assert len(points) == 3 * 3
    for place, value in points:
        interval = at(summary, today(place[:-1]))
        assert interval["low"] < value < interval["high"], place


def test_empty_slots_at_the_end_of_a_turn_are_no_longer_charged(
    earlier: list[tuple[Place, Any]], summary: Any
) -> None:
    speeds = [(place, value) for place, value in earlier if place[-1] == "tokens_per_second"]
    assert len(speeds) == 3 * 2
    for place, value in speeds:
        assert 1 < at(summary, today(place)) / value < 1.15, place


def test_what_it_kept_beside_the_ledger_still_reads() -> None:
    run = results.read(EARLIER)
    assert [variant.name for variant in run.config.variants] == ["Base", "SD"]
    assert run.published.original
    assert run.driver == "llmperf"
    assert {check.variant for check in run.checks} == {"Base", "SD"}
    assert [(found.variant, found.case, found.first) for found in run.divergences] == [
        ("SD", "repetition", None),
        ("SD", "open-ended", 7),
    ]
