"""Shares of right answers, and their difference.

How often an interval holds the truth, ``tests.bench.answers`` says.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectap.analysis.estimates.proportions import Paired, bounds


@pytest.mark.parametrize(("lost", "p"), [(0, 1.0), (5, 1 / 32), (6, 1 / 64)])
def test_prompts_that_are_lost(lost: int, p: float) -> None:
    paired = Paired([0.0] * lost + [1.0] * (60 - lost), [1.0] * 60)
    assert paired.p == pytest.approx(p)
    assert (paired.lost, paired.won) == (lost, 0)


def test_newcombes_own_example() -> None:
    """Table III there: of 50 pairs 36, 12, 2 and 0; method 10 gives 0.0569 to 0.3404."""
    first = [1.0] * 36 + [1.0] * 12 + [0.0] * 2
    second = [1.0] * 36 + [0.0] * 12 + [1.0] * 2
    assert Paired(first, second).interval() == pytest.approx((0.0569, 0.3404), abs=5e-5)


@pytest.mark.parametrize(
    ("right", "low", "high"), [(0, 0, 0.161), (20, 0.839, 1), (10, 0.299, 0.701)]
)
def test_wilsons_bounds(right: int, low: float, high: float) -> None:
    assert bounds([1.0] * right + [0.0] * (20 - right)) == pytest.approx((low, high), abs=5e-4)


shares = st.integers(1, 4).flatmap(
    lambda answers: st.lists(
        st.tuples(st.integers(0, answers), st.integers(0, answers)).map(
            lambda pair: (pair[0] / answers, pair[1] / answers)
        ),
        min_size=1,
    )
)


@given(shares)
def test_the_other_way_round_is_the_other_sign(pairs: list[tuple[float, float]]) -> None:
    forward, backward = (
        Paired(*zip(*pairs, strict=True)),
        Paired(*zip(*(p[::-1] for p in pairs), strict=True)),
    )
    low, high = forward.interval()
    assert -1 <= low <= forward.rates[0] - forward.rates[1] <= high <= 1
    assert backward.interval() == pytest.approx((-high, -low))
    assert (forward.lost, forward.won) == (backward.won, backward.lost)
    assert max(forward.p, backward.p) >= 0.5
