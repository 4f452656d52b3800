"""A rehearsal asks for less, keeps the shape of what it asks for, and lists what it left out."""

from __future__ import annotations

from typing import Any, Final

import pytest

from rehearsal.pod.as_process import differences
from rehearsal.pod.caps import Caps
from spectap.config import Config, PromptSource, TestCase
from spectap.load_points import LoadPoint
from tests.spectap import samples

Points = tuple[tuple[str, float, int], ...]
"""Kind, its value, and requests."""

LADDER: Final[Points] = (
    *(("concurrency", 1, 4), ("concurrency", 16, 16)),
    *(("rate", 0.2, 12), ("rate", 5, 300)),
)


def of_pod(points: Points = LADDER) -> Config:
    config = samples.config()
    case = TestCase(name="set", prompts=PromptSource(known="humaneval", limit=40))
    load = {
        "points": tuple(
            LoadPoint.model_validate({kind: x, "requests": count}) for kind, x, count in points
        ),
        "mean_output_tokens": 600,
    }
    return config.model_copy(
        update={"load": config.load.model_copy(update=load), "test_cases": (case,)}
    )


def concurrencies(*counts: int) -> Points:
    return tuple(("concurrency", count, 20) for count in counts)


@pytest.mark.parametrize(
    ("caps", "points", "expected"),
    [
        ({}, LADDER[1:3], {"concurrency-16": 16, "rate-0.2": 12}),
        # A rate remains, and lasts less long.
        ({"rate_seconds": 2}, LADDER[2:], {"rate-0.2": 1, "rate-5": 10}),
        # A concurrency that is too high is left out.
        ({"concurrency": 4}, LADDER[:3], {"concurrency-1": 4, "rate-0.2": 12}),
        # A ladder stays a ladder, and a rate alone is none.
        ({"concurrency": 4}, concurrencies(16, 8, 32), {"concurrency-16": 16, "concurrency-8": 8}),
        ({"concurrency": 4}, concurrencies(8, 2, 16), {"concurrency-8": 8, "concurrency-2": 20}),
        ({"concurrency": 4}, concurrencies(2, 4, 8), {"concurrency-2": 20, "concurrency-4": 20}),
        ({"concurrency": 4}, LADDER[1:3], {"concurrency-16": 16, "rate-0.2": 12}),
        # A single one is lowered.
        ({"concurrency": 4}, concurrencies(16), {"concurrency-4": 20}),
    ],
)
def test_load_points(caps: dict[str, Any], points: Points, expected: dict[str, int]) -> None:
    capped = Caps(**caps).applied(of_pod(points))
    assert {point.name: point.requests for point in capped.load.points} == expected
    assert [point.name for point in capped.load.points] == [*expected]
    assert Caps(**caps).applied(capped) == capped


def test_every_difference_is_listed() -> None:
    caps = Caps(rounds=1, output_tokens=100, prompts=12, concurrency=4, rate_seconds=2)
    assert sorted(differences(of_pod(), caps.applied(of_pod()))) == [
        "load.mean_output_tokens: 100 in place of 600",
        "load.points.concurrency-16: left out",
        "load.points.rate-0.2.requests: 1 in place of 12",
        "load.points.rate-5.requests: 10 in place of 300",
        f"load.rounds.at_least: 1 in place of {of_pod().load.rounds.at_least}",
        f"load.rounds.at_most: 1 in place of {of_pod().load.rounds.at_most}",
        "test_cases.set.prompts.limit: 12 in place of 40",
    ]
    (gone, new) = differences(of_pod(LADDER[:1]), of_pod(LADDER[1:2]))
    assert gone == "load.points.concurrency-1: left out"
    assert new.startswith("load.points.concurrency-16: added, ")
