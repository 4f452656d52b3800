"""Variants that were measured apart: what their controls show of the time between them."""

import dataclasses
import math

import pytest

from spectap.analysis.evidence import unsteadiness_of
from spectap.names import CONTROL
from spectap.records.ledger import last_attempts
from spectap.records.record import Record
from tests import samples


def control(variant: str, attempt: int, sent: float, step: float, steps: int = 10) -> Record:
    """A request whose steps yield 1 to 4 tokens, in turn."""
    chunks = tuple((0.2 + step * number, 1 + number % 4) for number in range(steps + 1))
    return samples.record(
        variant=variant, round=CONTROL, attempt=attempt, sent=sent, chunks=chunks, end=chunks[-1][0]
    )


def measured(variant: str, sent: float) -> Record:
    return samples.record(variant=variant, sent=sent)


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
