"""Where a variant turns from better to worse, and how it is reported."""

import math
from collections.abc import Sequence

import pytest

from spectap.analysis.estimate import ALPHA, Estimate
from spectap.analysis.ladder import crossover
from spectap.inputs.load_points import LoadPoint, kinds

LOADS = (1.0, 2.0, 4.0, 8.0)
SURE, UNSURE = 0.001, 0.5


def rungs(ratios: Sequence[float | None], error: float = SURE) -> list[tuple[float, Estimate]]:
    """A ratio at each of the loads; None where there is no estimate."""
    return [
        (load, Estimate(math.log(ratio), error, 6))
        for load, ratio in zip(LOADS, ratios, strict=True)
        if ratio is not None
    ]


@pytest.mark.parametrize(
    ("ratios", "better", "worse", "point"),
    [
        ((2, 1.5, 2 / 3, 0.5), 2, 4, math.sqrt(8)),
        ((1.5, 1.2, 1.1, 1.05), 8, None, None),
        ((0.9, 0.8, 0.7, 0.6), None, 1, None),
        ((0.8, 0.9, 1.1, 1.2), None, None, None),
        ((1.5, 0.9, 1.2, 0.8), 1, 8, 4.4293),
        ((1.5, None, 1.1, 0.8), 4, 8, 4.922),
        ((None, None, None, None), None, None, None),
    ],
)
def test_where_it_turns(
    ratios: Sequence[float | None], better: float | None, worse: float | None, point: float | None
) -> None:
    crossing = crossover(rungs(ratios), ALPHA)
    assert (crossing.better_up_to, crossing.worse_from) == (better, worse)
    assert crossing.point == (point and pytest.approx(point, rel=1e-3))


def test_scatter_makes_no_second_crossing() -> None:
    crossing = crossover(rungs((2, 0.98, 1.02, 0.5), UNSURE), ALPHA)
    assert crossing.point == pytest.approx(2, rel=0.01)
    assert not crossing.better_up_to  # nor any bound that is not sure
    assert not crossing.worse_from


CLOSED = tuple(LoadPoint(concurrency=number, requests=4) for number in (1, 2, 4, 8))
OPEN = tuple(LoadPoint(rate=rate, requests=4) for rate in (0.5, 1.0, 2.0, 4.0))


def test_closed_loops_come_first_and_the_lowest_of_each_kind() -> None:
    assert kinds([*reversed(CLOSED), OPEN[0]]) == [CLOSED, OPEN[:1]]
    assert kinds([*OPEN, *CLOSED]) == [CLOSED, OPEN]
    assert kinds([]) == []
