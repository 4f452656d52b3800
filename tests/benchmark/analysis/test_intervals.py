"""Intervals: the properties they must keep, and how they are written."""

from __future__ import annotations

import heapq
import random
from statistics import fmean

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmark import wording
from benchmark.analysis import intervals
from benchmark.analysis.intervals import MINIMUM_SAMPLE, Interval, ratio_of_medians, throughput

SAMPLES = st.lists(st.floats(1e-3, 1e3), min_size=MINIMUM_SAMPLE, max_size=30)

Rounds = list[list[tuple[float, int]]]
ROUNDS = st.lists(
    st.lists(
        st.tuples(st.floats(1e-3, 1e3), st.integers(1, 1000)),
        min_size=MINIMUM_SAMPLE,
        max_size=10,
    ),
    min_size=1,
    max_size=3,
)


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


class TestBootstrap:
    @given(SAMPLES, SAMPLES)
    @settings(max_examples=25, deadline=None)
    def test_bounds_lie_within_the_samples(self, above: list[float], below: list[float]) -> None:
        interval = ratio_of_medians(above, below)
        assert interval is not None
        assert interval.low <= interval.high
        assert interval.low >= min(above) / max(below) * (1 - 1e-9)
        assert interval.high <= max(above) / min(below) * (1 + 1e-9)

    @given(SAMPLES, SAMPLES, st.floats(0.01, 100))
    @settings(max_examples=25, deadline=None)
    def test_the_unit_does_not_matter(
        self, above: list[float], below: list[float], scale: float
    ) -> None:
        plain = ratio_of_medians(above, below)
        scaled = ratio_of_medians([v * scale for v in above], [v * scale for v in below])
        assert plain is not None
        assert scaled is not None
        assert scaled.low == pytest.approx(plain.low)
        assert scaled.high == pytest.approx(plain.high)

    @given(SAMPLES)
    @settings(max_examples=25, deadline=None)
    def test_a_sample_never_differs_from_itself(self, sample: list[float]) -> None:
        interval = ratio_of_medians(sample, sample)
        assert interval is not None
        assert interval.covers_one

    @given(st.lists(st.floats(1, 2), max_size=MINIMUM_SAMPLE - 1), SAMPLES)
    @settings(max_examples=25, deadline=None)
    def test_small_samples_give_nothing(self, small: list[float], enough: list[float]) -> None:
        assert ratio_of_medians(small, enough) is None
        assert ratio_of_medians(enough, small) is None

    def test_medians_that_are_not_positive_give_nothing(self) -> None:
        assert ratio_of_medians([0.0] * 10, [1.0] * 10) is None
        assert ratio_of_medians([1.0] * 10, [0.0] * 10) is None

    def test_one_answer_in_one_piece_does_not_decide(self) -> None:
        other = [2.0] * 24
        assert ratio_of_medians([0.0] + [1.0] * 23, other) == Interval(0.5, 0.5, 0.5)
        assert ratio_of_medians(other, [0.0] + [1.0] * 23) == Interval(2.0, 2.0, 2.0)

    @given(ROUNDS, st.integers(1, 8), st.floats(0.01, 100))
    @settings(max_examples=25, deadline=None)
    def test_throughput_in_slower_time_is_lower(
        self, rounds: Rounds, concurrency: int, scale: float
    ) -> None:
        slower = [[(scale * seconds, tokens) for seconds, tokens in r] for r in rounds]
        plain = throughput(rounds, 10.0, concurrency)
        scaled = throughput(slower, 10.0 * scale, concurrency)
        assert plain is not None
        assert scaled is not None
        assert plain.low <= plain.high
        assert scaled.scaled(scale).low == pytest.approx(plain.low)
        assert scaled.scaled(scale).high == pytest.approx(plain.high)

    def test_throughput_of_equal_requests_is_certain(self) -> None:
        # Two rounds of three waves each, the last of one request only, and pauses of 4 s in all.
        interval = throughput([[(2.0, 100)] * 9] * 2, 2 * 3 * 2.0 + 4.0, concurrency=4)
        assert interval is not None
        assert interval.low == pytest.approx(1800 / 16)
        assert interval.high == pytest.approx(1800 / 16)

    def test_throughput_needs_requests_that_took_time_and_have_tokens(self) -> None:
        enough = [(1.0, 100)] * MINIMUM_SAMPLE
        assert throughput([enough], 6.0, 1) is not None
        assert throughput([enough[1:], [(1.0, 0)]], 6.0, 1) is None
        assert throughput([enough, [(0.0, 0)]], 6.0, 1) is None
        assert throughput([], 0.0, 1) is None

    def test_throughput_covers_the_truth_about_as_often_as_it_says(self) -> None:
        chance = random.Random(7)
        runs = [_closed_loop(chance, rounds=3, requests=8, concurrency=4) for _ in range(2000)]
        truth = fmean(sum(t for r in rounds for _, t in r) / busy for rounds, busy in runs)
        hits = 0
        for rounds, busy in runs[:100]:
            interval = throughput(rounds, busy, concurrency=4)
            assert interval is not None
            hits += interval.low <= truth <= interval.high
        assert hits >= 88

    def test_the_interval_covers_the_truth_about_as_often_as_it_says(self) -> None:
        generator = np.random.default_rng(7)
        hits = 0
        for _ in range(100):
            above, below = generator.normal(3, 0.3, 24), generator.normal(1, 0.1, 24)
            interval = ratio_of_medians(above.tolist(), below.tolist())
            assert interval is not None
            hits += interval.low <= 3 <= interval.high
        assert hits >= 88


def _closed_loop(
    chance: random.Random, rounds: int, requests: int, concurrency: int
) -> tuple[Rounds, float]:
    """A run of requests that take 1 s, give or take 0.1 s, with pauses of 0.02 s between them."""
    made: Rounds = []
    busy = 0.0
    for _ in range(rounds):
        of_round = [(chance.gauss(1, 0.1), 100) for _ in range(requests)]
        ends = [0.0] * concurrency
        for seconds, _ in of_round:
            heapq.heapreplace(ends, ends[0] + seconds + 0.02)
        made.append(of_round)
        busy += max(ends) - 0.02
    return made, busy
