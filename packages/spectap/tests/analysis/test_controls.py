"""Variants that were measured apart: what their controls show, and what that makes of a report."""

import dataclasses
import math
from collections.abc import Iterable

import pytest

from spectap.analysis.evidence import unsteadiness_of
from spectap.analysis.summarise import summarise
from spectap.analysis.summary import Summary
from spectap.ledger import last_attempts
from spectap.names import CONTROL
from spectap.record import Record
from tests import samples
from tests.analysis.ledgers import ISOLATED as STEADY


def control(variant: str, attempt: int, sent: float, step: float, steps: int = 10) -> Record:
    """A request whose steps yield 1 to 4 tokens, in turn."""
    chunks = tuple((0.2 + step * number, 1 + number % 4) for number in range(steps + 1))
    return samples.record(
        variant=variant, round=CONTROL, attempt=attempt, sent=sent, chunks=chunks, end=chunks[-1][0]
    )


def measured(variant: str, sent: float) -> Record:
    return samples.record(variant=variant, sent=sent)


def summary(records: Iterable[Record]) -> Summary:
    return summarise(STEADY.configuration(), records)


def without_controls(records: Iterable[Record]) -> list[Record]:
    return [record for record in records if record.round != CONTROL]


def test_the_change_is_that_of_a_step_however_many_drafts_are_accepted() -> None:
    unsteadiness = unsteadiness_of(
        [
            *(control("Base", 1, 0, 0.05), control("Base", 2, 100, 0.05, steps=25)),
            *(control("SD", 1, 200, 0.06), control("SD", 2, 500, 0.06 * 1.1)),
            *(measured("Base", 50), measured("SD", 350)),
            # The slowest of a wave is no measure of it.
            *[control("Base", 1, 0, 0.05), control("Base", 2, 100, 0.05)] * 2,
            control("Base", 2, 100, 0.5),
        ]
    )
    assert unsteadiness is not None
    assert unsteadiness.change == pytest.approx(math.log(1.1) / math.sqrt(2))
    assert (unsteadiness.variants, unsteadiness.seconds) == (2, 200)
    assert unsteadiness.between("SD", "Base") == pytest.approx(
        unsteadiness.change * math.sqrt(300 / 200)
    )


def test_a_resumed_variant_has_more_controls_and_its_range_counts() -> None:
    steps = (0.05, 0.055, 0.052, 0.051)
    attempts = [
        control("SD", attempt, 100.0 * attempt, step) for attempt, step in enumerate(steps, start=1)
    ]
    unsteadiness = unsteadiness_of([*attempts, measured("SD", 250)])
    assert unsteadiness is not None
    assert unsteadiness.change == pytest.approx(math.log(1.1))
    assert unsteadiness.seconds == 300
    assert last_attempts(attempts, isolated=True) == attempts


@pytest.mark.parametrize(
    "records",
    [
        [measured("Base", 50)],
        [control("Base", 1, 0, 0.05), measured("Base", 50)],
        [control("Base", 1, 0, 0.05), control("Base", 2, 100, 0.05, steps=0)],
        [control("Base", 1, 0, 0.05), dataclasses.replace(control("Base", 2, 9, 1), error="lost")],
    ],
)
def test_what_has_no_two_controls_shows_nothing(records: list[Record]) -> None:
    assert unsteadiness_of(records) is None


def test_every_comparison_of_two_variants_is_widened_and_no_figure_of_one() -> None:
    records = STEADY.records(0)
    lost = [control("SD", attempt, 0, 1) for attempt in (3, 4)]
    lost = [dataclasses.replace(record, end=1e6, error="lost") for record in lost]
    isolated = summary([*records, *lost])
    together = summarise(
        STEADY.configuration().model_copy(update={"isolated": False}), without_controls(records)
    )
    for case, plain_case in zip(isolated.cases, together.cases, strict=True):
        for cell, plain_cell in zip(case.cells, plain_case.cells, strict=True):
            assert dataclasses.replace(cell, comparison=None) == dataclasses.replace(
                plain_cell, comparison=None
            )
        for (_, wide), (_, narrow) in zip(case.compared, plain_case.compared, strict=True):
            for field in ("by_time_per_output_token", "by_end_to_end", "speedup"):
                wider, narrower = getattr(wide, field), getattr(narrow, field)
                assert wider.point == narrower.point
                assert wider.low < narrower.low < narrower.high < wider.high
            assert wide.cost
            assert narrow.cost
            assert wide.cost.interval.low < narrow.cost.interval.low
