"""Notes and cautions: of their loads, and no others."""

from dataclasses import replace
from typing import Any

import pytest

from spectap.inputs.load_points import LoadPoint
from spectap.report import caveats, headline
from spectap.report.results import Results
from tests import samples

LOADS = (1, 4, 8)
CELLS = [
    samples.cell("SD", load=LoadPoint(concurrency=load, requests=6), requests=18) for load in LOADS
]


def test_a_caution_is_of_its_loads() -> None:
    cells = [replace(CELLS[0], queued=True), *(replace(c, errors=3) for c in CELLS[1:])]
    assert [*caveats.of_cells(cells)] == [
        "SD requests queue at concurrency 1",
        "6 of 36 SD requests failed at concurrency 4 and 8",
    ]
    by_rate = replace(cells[0], load=LoadPoint(rate=2, requests=6))
    assert [*caveats.of_cells([cells[0], by_rate])] == [
        "SD requests queue at concurrency 1, and 2 requests a second"
    ]
    assert [*caveats.of_cells([replace(cells[0], repeated_errors=2)])] == [
        "SD requests queue",
        "2 SD requests failed in turns that were measured again",
    ]


@pytest.mark.parametrize(
    ("queueing", "load", "named"),
    [
        ({"SD"}, {"concurrency": 8}, True),
        ({"Base", "SD"}, {"concurrency": 8}, False),
        ({"SD"}, {"rate": 8.0}, False),  # a slower server of as many slots queues, too
    ],
)
def test_fewer_slots_are_named(
    queueing: set[str], load: dict[str, Any], named: bool, comparison: Results
) -> None:
    point = LoadPoint(requests=8, **load)
    cases = tuple(
        replace(
            case,
            cells=tuple(
                replace(cell, load=point, queued=cell.variant in queueing) for cell in case.cells
            ),
        )
        for case in comparison.summary.cases
    )
    lines = [*headline.caveats_of(replace(comparison.summary, cases=cases), comparison.config)]
    assert (
        any(line.startswith("SD takes fewer requests at once than Base.") for line in lines)
        == named
    )


@pytest.mark.parametrize(
    ("changes", "named"),
    [({}, False), ({"machines": 2}, True), ({"machines": 2, "stand_in": "golden"}, False)],
)
def test_two_machines_are_named_unless_one_stands_in(
    changes: dict[str, Any], named: bool, comparison: Results
) -> None:
    config = comparison.config.model_copy(update={"stand_in": None, **changes})
    notes = caveats.of_run(config, comparison.summary)
    assert any("Base and SD ran on 2 machines. " in note for note in notes) == named


def test_answers_of_another_model_are_named(comparison: Results) -> None:
    case = replace(comparison.summary.cases[0], cells=(replace(CELLS[0], model="tiny"),))
    notes = [*caveats.of_case(case, comparison.summary)]
    assert "SD: answers name another model than the one asked for: tiny." in notes
