"""Prompts that a server had in its cache: how large a part, and when the report says so."""

import pytest

from spectap.analysis.crosscheck import cached
from spectap.endpoint.counters import Count, Counters, Obstacle
from spectap.report.caveats import of_caches
from tests import samples


def counted(variant: str, hits: int, obstacle: Obstacle | None = None) -> Count:
    counters = Counters(21, cache_hits=hits, cache_queries=100)
    return Count("counting", 1, variant, (), counters, obstacle=obstacle)


def test_a_requests_usage_is_believed_before_counters() -> None:
    records = [
        samples.record(variant="SD", prompt_tokens=40, cached_tokens=cached, round=number)
        for number, cached in ((0, 40), (1, 0), (2, 16), (3, None))
    ]
    counts = [counted("SD", 90), counted("Base", 30), counted("Base", 10)]
    counts.append(counted("Base", 100, Obstacle.FELL))
    assert cached(records, counts) == {"counting": {"Base": 0.2, "SD": 0.2}}
    assert cached([], [Count("counting", 1, "SD", (), Counters(21))]) == {}


@pytest.mark.parametrize(
    ("of_case", "expected"),
    [
        ({"Base": 0.0, "SD": 0.05}, ""),
        ({"Base": 0.3, "SD": 0.35}, ""),
        ({"Base": 0.0, "SD": 0.8}, "0 % of Base's and 80 % of SD's prompt tokens were in a cache"),
        ({"SD": 0.2}, "20 % of SD's prompt tokens"),
        ({"Base": 0.6, "SD": 0.6}, "60 % of Base's and 60 % of SD's prompt tokens"),
    ],
)
def test_a_cache_that_differs_or_decides_is_noted(of_case: dict[str, float], expected: str) -> None:
    notes = [*of_caches({"counting": of_case}, ("Base", "SD"))]
    assert len(notes) == bool(expected)
    assert expected in "".join(notes)
