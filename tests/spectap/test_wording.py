"""How numbers are written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from spectap import wording

MINUS = "\N{MINUS SIGN}"


@pytest.mark.parametrize(
    ("write", "value", "text"),
    [
        (wording.milliseconds, 0.01504, "15.0"),
        (wording.milliseconds, 0.0012, "1.20"),
        (wording.dollars, 35.7608, "$35.76"),
        (wording.dollars, 0.0123, "$0.012"),
        (wording.dollars, None, "-"),
        (wording.duration, 120, "2 min"),
        (wording.change, 0.344, f"{MINUS}66 %"),
        (wording.change, 1.0421, "+4.2 %"),
        (wording.unbroken, "95 % of 4 cases, %", "95\N{NO-BREAK SPACE}% of 4 cases, %"),
        (wording.short, "x" * 30, "x" * 19 + "…"),
        (wording.listed, ["a"], "a"),
        (wording.listed, ["a", "b", "c"], "a, b and c"),
    ],
)
def test_a_value_in_words(write: Callable[[Any], str], value: object, text: str) -> None:
    assert write(value) == text


def test_periods_and_counts() -> None:
    assert wording.period(0, 3600) == "1970-01-01 00:00 to 01:00 UTC"
    assert wording.period(0, 90_000) == "1970-01-01 00:00 to 1970-01-02 01:00 UTC"
    assert wording.count(1, "round") == "1 round"
    assert wording.count(24_000, "request") == "24,000 requests"
