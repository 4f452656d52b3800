"""Verdicts: the sentence of each finding, and what is claimed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmark.analysis.intervals import Interval
from benchmark.analysis.summary import Finding
from benchmark.analysis.verdict import judge
from tests.benchmark import samples


class TestVerdict:
    GOOD = samples.cell("SD"), samples.cell("Base")

    @pytest.mark.parametrize(
        ("interval", "finding", "sentence"),
        [
            (
                Interval(2.9, 2.7, 3.1),
                Finding.FASTER,
                "SD is 2.9x faster here, 95 % interval 2.7-3.1; keep it on.",
            ),
            (
                Interval(0.5, 0.4, 0.625),
                Finding.SLOWER,
                "SD is 2.0x slower here, 95 % interval 1.6-2.5; turn it off.",
            ),
            (
                Interval(1.1, 0.9, 1.3),
                Finding.UNDECIDED,
                "No difference between SD and Base can be told here: "
                "the 95 % interval 0.90-1.30 covers 1.",
            ),
            (
                Interval(1.02, 1.01, 1.03),
                Finding.NEGLIGIBLE,
                "SD is 1.02x faster here, 95 % interval 1.01-1.03; too little to matter.",
            ),
            (
                Interval(3.0, 2.99, 3.01),
                Finding.FASTER,
                "SD is 3.00x faster here, 95 % interval 2.99-3.01; keep it on.",
            ),
        ],
    )
    def test_sentences(self, interval: Interval, finding: Finding, sentence: str) -> None:
        verdict = judge(*self.GOOD, interval)
        assert verdict.finding is finding
        assert verdict.sentence == sentence

    @given(st.floats(0.01, 100), st.floats(1, 2), st.floats(1, 2))
    def test_a_difference_is_claimed_only_where_one_is_excluded(
        self, point: float, below: float, above: float
    ) -> None:
        interval = Interval(point, point / below, point * above)
        finding = judge(*self.GOOD, interval).finding
        assert (finding is Finding.UNDECIDED) == (interval.low <= 1 <= interval.high)
        assert finding is not Finding.FASTER or interval.low > 1
        assert finding is not Finding.SLOWER or interval.high < 1

    def test_where_there_are_several_baselines_the_sentence_says_which_one(self) -> None:
        cell, baseline = samples.cell("k7-b8"), samples.cell("Base-b8")
        verdict = judge(cell, baseline, Interval(0.5, 0.4, 0.625), name_baseline=True)
        assert verdict.sentence == (
            "k7-b8 is 2.0x slower than Base-b8 here, 95 % interval 1.6-2.5; turn it off."
        )
