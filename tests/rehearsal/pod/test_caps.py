"""A rehearsal asks for less, keeps the shape of what it asks for, and says what it left out."""

from __future__ import annotations

from typing import Any

import pytest

from rehearsal.pod.caps import Caps, differences
from spectap.config import Config, PromptSource, TestCase
from spectap.load_points import LoadPoint
from tests.spectap import samples

POINTS = (
    LoadPoint(concurrency=1, requests=4),
    LoadPoint(concurrency=16, requests=16),
    LoadPoint(rate=0.2, requests=12),
    LoadPoint(rate=5, requests=300),
)


def told(**load: Any) -> Config:
    config = samples.config()
    case = TestCase(name="set", prompts=PromptSource(known="humaneval", limit=40))
    changes = {"points": POINTS, "mean_output_tokens": 600} | load
    return config.model_copy(
        update={"load": config.load.model_copy(update=changes), "test_cases": (case,)}
    )


def test_nothing_is_capped_that_is_not_named() -> None:
    assert Caps().applied(told()) == told()
    assert list(differences(told(), told())) == []


def test_a_rate_keeps_its_rate_and_lasts_less_long() -> None:
    capped = Caps(rate_seconds=2).applied(told())
    assert [(point.name, point.requests) for point in capped.load.points] == [
        *[("concurrency-1", 4), ("concurrency-16", 16), ("rate-0.2", 1), ("rate-5", 10)]
    ]
    assert list(differences(told(), capped)) == [
        "load.points.rate-0.2.requests: 1 in place of 12",
        "load.points.rate-5.requests: 10 in place of 300",
    ]


def test_a_concurrency_that_is_too_high_is_left_out() -> None:
    capped = Caps(concurrency=4).applied(told())
    assert [point.name for point in capped.load.points] == ["concurrency-1", "rate-0.2", "rate-5"]
    assert list(differences(told(), capped)) == ["load.points: without concurrency-16"]


@pytest.mark.parametrize(
    ("points", "kept"),
    [
        ((16, 8, 32), [("concurrency-16", 16), ("concurrency-8", 8)]),
        ((8, 2, 16), [("concurrency-8", 8), ("concurrency-2", 20)]),
        ((2, 4, 8), [("concurrency-2", 20), ("concurrency-4", 20)]),
    ],
)
def test_a_ladder_stays_a_ladder(points: tuple[int, ...], kept: list[tuple[str, int]]) -> None:
    ladder = told(points=tuple(LoadPoint(concurrency=one, requests=20) for one in points))
    capped = Caps(concurrency=4).applied(ladder)
    assert [(point.name, point.requests) for point in capped.load.points] == kept
    assert Caps(concurrency=4).applied(capped) == capped


def test_a_rate_alone_is_no_ladder() -> None:
    capped = Caps(concurrency=4).applied(told(points=POINTS[1:3]))
    assert [point.name for point in capped.load.points] == ["concurrency-16", "rate-0.2"]


def test_a_single_one_that_is_too_high_is_lowered() -> None:
    high = told(points=POINTS[1:2])
    capped = Caps(concurrency=4).applied(high)
    assert capped.load.points == (LoadPoint(concurrency=4, requests=16),)
    assert list(differences(high, capped)) == [
        "load.points: without concurrency-16",
        "load.points: with concurrency-4",
    ]


def test_answers_rounds_and_prompts() -> None:
    caps = Caps(rounds=1, output_tokens=100, prompts=12)
    capped = caps.applied(told())
    assert capped.load.rounds.at_most == 1
    assert capped.load.mean_output_tokens == 100
    assert list(differences(told(), capped)) == [
        f"load.rounds: 1 round in place of {told().load.rounds}",
        "load.mean_output_tokens: 100 in place of 600",
        "test_cases.set.limit: 12 in place of 40",
    ]
    assert caps.applied(capped) == capped
