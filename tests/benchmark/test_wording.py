"""How numbers are written."""

from __future__ import annotations

import pytest

from benchmark import wording
from benchmark.analysis.intervals import Interval


@pytest.mark.parametrize(
    ("interval", "times", "span"),
    [
        (Interval(2.94, 2.71, 3.12), "2.9x", "2.7-3.1"),
        (Interval(3.0, 2.98, 3.02), "3.00x", "2.98-3.02"),
        (Interval(1.04, 0.97, 1.11), "1.04x", "0.97-1.11"),
        (Interval(0.741, 0.7408, 0.7424), "0.741x", "0.741-0.742"),
        (Interval(1.0, 1.0, 1.0), "1.000x", "1.000-1.000"),
    ],
)
def test_speedups_have_as_many_decimals_as_tell_the_bounds_apart(
    interval: Interval, times: str, span: str
) -> None:
    assert (wording.times(interval), wording.span(interval)) == (times, span)


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.01504, "15.0"), (0.2098, "209.8"), (0.0012, "1.20"), (None, "-")]
)
def test_milliseconds(seconds: float | None, text: str) -> None:
    assert wording.milliseconds(seconds) == text


@pytest.mark.parametrize(
    ("usd", "text"), [(35.7608, "$35.76"), (1234.5, "$1,234.50"), (0.0123, "$0.012"), (None, "-")]
)
def test_dollars(usd: float | None, text: str) -> None:
    assert wording.dollars(usd) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.2, "0 s"), (119.4, "119 s"), (120, "2 min"), (600, "10 min"), (6 * 3600, "360 min")],
)
def test_durations(seconds: float, text: str) -> None:
    assert wording.duration(seconds) == text


def test_estimates_have_their_intervals_beside_them() -> None:
    interval = Interval(855.4, 851.31, 1056.9)
    assert wording.estimate(855.4, interval, wording.significant) == "855.4 (851.3-1,057)"
    assert wording.estimate(5.81, Interval(5.81, 5.8, 5.83), wording.dollars) == (
        "$5.81 ($5.80-$5.83)"
    )
    assert wording.estimate(855.4, None, wording.significant) == "855.4"
    assert wording.estimate(None, None, wording.dollars) == "-"


def test_periods() -> None:
    assert wording.period(0, 3600) == "1970-01-01 00:00 to 01:00 UTC"
    assert wording.period(0, 90_000) == "1970-01-01 00:00 to 1970-01-02 01:00 UTC"


def test_counts_and_names() -> None:
    assert wording.count(1, "round") == "1 round"
    assert wording.count(24_000, "request") == "24,000 requests"
    assert wording.short("x" * 30) == "x" * 19 + "…"
