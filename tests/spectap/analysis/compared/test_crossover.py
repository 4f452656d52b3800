"""Where a variant turns from better to worse: the bounds, and the load between them."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectap.analysis.compared.crossover import Rung, crossover
from spectap.analysis.estimates.estimate import ALPHA, Estimate
from spectap.analysis.summary import Crossover

LOADS = (1.0, 2.0, 4.0, 8.0)
SURE, UNSURE = 0.001, 0.5


def rungs(ratios: Sequence[float | None], error: float = SURE) -> list[Rung]:
    """A ratio at each of the loads; None where there is no estimate."""
    return [
        Rung(load, None if ratio is None else Estimate(math.log(ratio), error, 6), None)
        for load, ratio in zip(LOADS, ratios, strict=True)
    ]


@pytest.mark.parametrize(
    ("ratios", "better", "worse"),
    [
        ((1.5, 1.2, 0.9, 0.8), 2, 4),
        ((1.5, 1.2, 1.1, 1.05), 8, None),
        ((0.9, 0.8, 0.7, 0.6), None, 1),
        ((1.5, 1.2, 1.0, 0.8), 2, 8),
        ((1.0, 1.0, 1.0, 1.0), None, None),
        ((0.8, 0.9, 1.1, 1.2), None, None),
        ((1.5, 0.9, 1.2, 0.8), 1, 8),
        ((1.5, None, 1.1, 0.8), 4, 8),
        ((None, None, None, None), None, None),
    ],
)
def test_bounds(ratios: Sequence[float | None], better: float | None, worse: float | None) -> None:
    found = crossover(rungs(ratios), ALPHA)
    assert (found.better_up_to, found.worse_from) == (better, worse)


def test_nothing_is_claimed_beyond_the_first_load_that_is_not_sure() -> None:
    known = rungs((1.5, 1.2, 1.1, 0.8))
    unsure = [known[0], Rung(2.0, Estimate(math.log(1.2), UNSURE, 6), None), *known[2:]]
    found = crossover(unsure, ALPHA)
    assert (found.better_up_to, found.worse_from) == (1, 8)


def test_the_point_is_between_the_loads_where_it_turns() -> None:
    assert crossover(rungs((2, 1.5, 2 / 3, 0.5)), ALPHA).point == pytest.approx(math.sqrt(8))
    assert crossover(rungs((1.5, 1.2, 1.1, 1.05)), ALPHA).point is None
    assert crossover(rungs((0.9, 0.8, 0.7, 0.6)), ALPHA).point is None


def test_scatter_makes_no_second_crossing() -> None:
    point = crossover(rungs((2, 0.98, 1.02, 0.5), UNSURE), ALPHA).point
    assert point == pytest.approx(2, rel=0.01)


@given(
    st.lists(st.floats(0.2, 5), min_size=4, max_size=4),
    st.lists(st.floats(0.001, 1), min_size=4, max_size=4),
)
def test_the_point_is_within_the_bounds(ratios: list[float], errors: list[float]) -> None:
    known = [
        Rung(load, Estimate(math.log(ratio), error, 6), None)
        for load, ratio, error in zip(LOADS, ratios, errors, strict=True)
    ]
    found = crossover(known, ALPHA)
    if found.point is not None:
        assert (found.better_up_to or 0) <= found.point <= (found.worse_from or math.inf)
    if found.found:
        assert found.point is not None


@given(st.lists(st.floats(0.2, 5), min_size=4, max_size=4), st.floats(0.01, 0.3))
def test_the_mirror_image_of_a_ladder_has_the_mirror_image_of_its_bounds(
    ratios: list[float], error: float
) -> None:
    def mirrored(found: Crossover) -> tuple[float | None, float | None]:
        low, high = found.better_up_to, found.worse_from
        return 8 / high if high else None, 8 / low if low else None

    one = crossover(rungs(ratios, error), ALPHA)
    other = crossover(rungs([1 / ratio for ratio in reversed(ratios)], error), ALPHA)
    assert (one.better_up_to, one.worse_from) == mirrored(other)
