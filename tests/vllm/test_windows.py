"""A sweep on real vLLM: what the advice predicts of a window, and what was measured there."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from spectap.analysis.advice.advice import Advice
from spectap.analysis.advice.advise import advise
from tests.vllm.conftest import Rehearsed, rehearse

FILE: Final = Path(__file__).with_name("windows.yaml")
WINDOWS: Final = (3, 5, 7)


@pytest.fixture(scope="module")
def swept() -> Rehearsed:
    return rehearse(FILE)


@pytest.fixture(scope="module")
def advice(swept: Rehearsed) -> Advice:
    return advise(swept.run.config, swept.run.ledger)


def test_each_variant_is_served_and_measured_by_itself(swept: Rehearsed) -> None:
    assert swept.run.summary.complete
    assert [variant.name for variant in swept.run.config.variants] == ["Base", "k3", "k5", "k7"]
    assert all(record.succeeded for record in swept.run.records)
    assert "indexes at once: 1 in place of 2" in swept.stand_ins


def test_upstream_drafts_as_many_as_the_window_has(swept: Rehearsed, advice: Advice) -> None:
    drafts = [variant.drafts_per_step for variant in swept.run.config.variants]
    assert drafts == [None, *WINDOWS]
    assert "variants.k3.drafts_per_step: 3 in place of 2" in swept.stand_ins
    (line,) = advice.lines
    assert (line.windows, line.offset) == (WINDOWS, 0)


def test_drafts_of_structured_text_are_accepted_at_every_position(advice: Advice) -> None:
    by_class = {acceptance.prompt_class: acceptance.positions for acceptance in advice.acceptances}
    assert len(by_class["structured"]) == max(WINDOWS)
    assert min(position.accepted for position in by_class["structured"]) > 0.9
    assert by_class["open-ended"][0].accepted < 0.7


@pytest.mark.parametrize("prompt_class", ["structured", "open-ended"])
@pytest.mark.parametrize("window", WINDOWS)
def test_two_windows_predict_the_third(advice: Advice, window: int, prompt_class: str) -> None:
    (prospect,) = (
        p for p in advice.prospects if (p.window, p.prompt_class) == (window, prompt_class)
    )
    assert prospect.predicted is not None
    assert prospect.measured is not None
    print(f"{prompt_class} {window}: {prospect.predicted.point:.2f}, {prospect.measured.point:.2f}")
    # As sure as the controls are steady: on a busy machine both are wide. How near the two points
    # are, make bench-vllm says.
    assert prospect.predicted.low <= prospect.measured.high
    assert prospect.measured.low <= prospect.predicted.high
