"""Intervals: how they are written."""

from __future__ import annotations

import pytest

from spectap import wording
from spectap.analysis.estimates import intervals
from spectap.analysis.estimates.intervals import Interval


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
    assert (intervals.times(interval), intervals.span(interval)) == (times, span)


def test_estimates_have_their_intervals_beside_them() -> None:
    interval = Interval(855.4, 851.31, 1056.9)
    assert intervals.estimate(855.4, interval, wording.significant) == "855.4 (851.3-1,057)"
    assert intervals.estimate(5.81, Interval(5.81, 5.8, 5.83), wording.dollars) == (
        "$5.81 ($5.80-$5.83)"
    )
    assert intervals.estimate(855.4, None, wording.significant) == "855.4"
    assert intervals.estimate(None, None, wording.dollars) == "-"
