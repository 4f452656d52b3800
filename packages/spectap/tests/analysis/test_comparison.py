"""A caution names the loads that it is about, and no others."""

from dataclasses import replace

from spectap.analysis.comparison import cautions
from spectap.load_points import LoadPoint
from tests import samples

LOADS = (1, 4, 8)
CELLS = [
    samples.cell("SD", load=LoadPoint(concurrency=load, requests=6), requests=18) for load in LOADS
]


def test_a_caution_is_of_its_loads() -> None:
    cells = [replace(CELLS[0], queued=True), *(replace(c, errors=3) for c in CELLS[1:])]
    assert [*cautions(cells)] == [
        "SD requests queue at concurrency 1",
        "6 of 36 SD requests failed at concurrency 4 and 8",
    ]
    by_rate = replace(cells[0], load=LoadPoint(rate=2, requests=6))
    assert [*cautions([cells[0], by_rate])] == [
        "SD requests queue at concurrency 1, and 2 requests a second"
    ]
    assert [*cautions([replace(cells[0], repeated_errors=2)])] == [
        "SD requests queue",
        "2 SD requests failed in turns that were measured again",
    ]
