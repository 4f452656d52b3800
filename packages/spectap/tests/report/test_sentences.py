"""What is said of a run: the sentences of a verdict, and cautions of their loads and no others."""

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from spectap.analysis.claims import judge, obstacle
from spectap.analysis.correctness import correctness
from spectap.analysis.summarise import summarise, summarise_ledgers
from spectap.analysis.summary import Case, Cell, Summary
from spectap.analysis.verdicts import Claim, Comparison, Finding, Verdict
from spectap.inputs.load_points import LoadPoint
from spectap.report import caveats, headline, phrases, quality
from spectap.report.results import Results
from tests import samples
from tests.analysis import ledgers, test_correctness
from tests.analysis.test_claims import (
    BASE,
    CHEAPER,
    DEARER,
    FASTER,
    OPEN,
    SD,
    SLOWER,
    TRIFLE,
    claim_of,
)
from tests.snapshots import TextSnapshot, folded

ALIKE = claim_of(1.0, 0.006, decided=False)
ALONE = claim_of(1.1, 0.03, decided=False)


def said(summary: Summary, cell: Cell, comparison: Comparison, *, priced: bool = True) -> str:
    """The verdict on a cell with that comparison, against a baseline without one."""
    compared = replace(cell, comparison=comparison)
    case = Case("counting", "", False, (BASE, compared))
    denominator = "a node" if priced else None
    changed = replace(summary, cost_denominator=denominator)
    return folded(phrases.verdict(case, compared, changed))


def compared(speed: Claim | None, cost: Claim | None, verdict: Verdict) -> Comparison:
    return Comparison("Base", None, None, speed, cost, verdict)


@pytest.mark.parametrize(
    ("speed", "cost"),
    [
        (FASTER, CHEAPER),
        (FASTER, DEARER),
        (SLOWER, CHEAPER),
        (SLOWER, DEARER),
        (TRIFLE, TRIFLE),
        (OPEN, OPEN),
        (ALONE, None),
        (ALIKE, None),
    ],
)
def test_what_is_said(
    speed: Claim, cost: Claim | None, comparison: Results, snapshot: SnapshotAssertion
) -> None:
    of = compared(speed, cost, judge(SD, BASE, speed, cost))
    texts = [said(comparison.summary, SD, of, priced=priced) for priced in (True, False)]
    assert (of.verdict.finding.value, *texts) == snapshot


def test_a_report_of_launches_counts_launches(comparison: Results) -> None:
    few = compared(None, None, Verdict(Finding.TOO_FEW, rounds=2))
    assert said(replace(comparison.summary, launches=3), SD, few) == folded(
        "No verdict: of 2 launches, fewer than 3 could be timed on both sides. An interval needs 3 "
        "launches."
    )


def test_a_side_whose_tokens_nobody_counts_is_named(comparison: Results) -> None:
    nobodys = replace(SD, uncounted=SD.requests - SD.errors)
    verdict = obstacle(nobodys, BASE)
    assert verdict
    assert said(comparison.summary, nobodys, compared(None, None, verdict)).startswith(
        "No verdict: no answer of SD has a count of tokens"
    )


def every_sentence() -> Iterator[str]:
    """Everything said of all ledgers that the analysis is tested with."""
    for world in ledgers.LEDGERS.values():
        config, records = world()
        for summary in (summarise(config, records), summarise_ledgers(records)):
            for case in summary.cases:
                yield from caveats.of_case(case, summary)
                yield from (phrases.verdict(case, cell, summary) for cell, _ in case.compared)
            yield from caveats.of_run(config, summary)
            yield from headline.answers(summary, config)
            yield from headline.caveats_of(summary, config)
    for answers in test_correctness.ANSWERS.values():
        yield from map(quality.sentence, correctness(test_correctness.SETTINGS, answers))


def test_each_sentence_once(snapshot: SnapshotAssertion) -> None:
    """Without its figures, which stand in the snapshots of the analysis."""
    masked = {re.sub(r"\d[\d.,]*", "#", text) for text in every_sentence()}
    assert folded("\n".join(sorted(masked))) == snapshot(extension_class=TextSnapshot)


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
