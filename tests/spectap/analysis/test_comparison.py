"""A caution names the loads that it is about, and no others."""

from dataclasses import replace

from spectap.analysis.comparison import cautions, decoding
from spectap.analysis.estimates.intervals import Interval
from spectap.analysis.summary import Answer, Claim, Comparison, Finding, Verdict
from spectap.load_points import LoadPoint
from tests.spectap import samples

LOADS = (1, 4, 8)
SLOWER = Comparison(
    baseline="Base",
    by_time_per_output_token=Interval(2, 1.9, 2.1),
    by_end_to_end=None,
    speed=Claim(Interval(0.5, 0.4, 0.6), Answer.WORSE, False, 0.1, 0.1, None),
    cost=None,
    verdict=Verdict(Finding.SLOWER, ""),
)


CELLS = [
    samples.cell("SD", load=LoadPoint(concurrency=load, requests=6), requests=18) for load in LOADS
]


def test_a_caution_is_of_its_loads() -> None:
    cells = [replace(CELLS[0], queued=True), *(replace(c, errors=3) for c in CELLS[1:])]
    assert [*cautions(cells, at=True)] == [
        "SD requests queue at 1 at once",
        "6 of 36 SD requests failed at 4 and 8 at once",
    ]
    by_rate = replace(cells[0], load=LoadPoint(rate=2, requests=6))
    assert [*cautions([cells[0], by_rate], at=True)] == [
        "SD requests queue at 1 at once and at 2 a second"
    ]
    assert [*cautions(cells, at=False)] == ["SD requests queue", "6 of 36 SD requests failed"]
    assert [*cautions([replace(cells[0], queued=False, repeated_errors=2)], at=True)] == [
        "2 SD requests failed in turns that were measured again at 1 at once, and their time is in "
        "the cost"
    ]


def test_test_cases_in_which_decoding_misleads_where_it_does_not_in_all() -> None:
    faster = replace(SLOWER, speed=Claim(Interval(2, 1.9, 2.1), Answer.BETTER, True, 0, 0.1, None))
    cells = [
        replace(CELLS[0], test_case=case, comparison=comparison)
        for case, comparison in (("counting", SLOWER), ("sonnets", SLOWER), ("tools", faster))
    ]
    (of_some,), (of_all,) = decoding(cells, at=False), decoding(cells[:2], at=False)
    at_loads = [CELLS[0], *(replace(cell, comparison=SLOWER) for cell in CELLS[1:])]
    assert of_some.startswith("SD requests take 2.00x as long in counting and sonnets, though SD")
    assert of_all == "SD requests take 2.00x as long, though SD decodes 2.00x as fast"
    assert [*decoding(at_loads, at=True)] == [f"{of_all} at 4 and 8 at once"]
