"""The stopping rule: when it looks, what it ends, and that it decides the same again."""

import dataclasses
import functools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectap.analysis import stopping
from spectap.analysis.estimate import ALPHA, ALPHA_EARLY
from spectap.analysis.grouping import at_load_points
from spectap.analysis.stopping import alpha, last_rounds, looks, measured_rounds, missing
from spectap.inputs.config import Config
from spectap.inputs.load_points import Rounds
from spectap.records.record import Record
from tests import generated_runs as generated

LOAD = f"concurrency-{generated.CONCURRENCY}"
STRUCTURED = ("structured", LOAD)

CASES = (("structured", "structured", True), ("open-ended", "open-ended", True))


def rounds(at_least: int, at_most: int) -> Rounds:
    return Rounds(at_least=at_least, at_most=at_most)


@functools.cache
def measured() -> tuple[Config, list[Record]]:
    """A run that measured all it could: a case with a speed-up of three, and one with none."""
    configuration = generated.config(CASES, requests=4, rounds=12)
    lines = generated.ledger(configuration)
    configuration["load"]["rounds"] = {"at_least": 4, "at_most": 12}
    config = Config.model_validate(configuration)
    return config, at_load_points(config.load, map(generated.record, lines))


@pytest.fixture
def decided_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """No interval is ever precise enough."""
    monkeypatch.setattr(stopping, "MARGIN", 0.001)


@given(st.integers(3, 50), st.integers(1, 100))
def test_looks_begin_and_end_with_the_range_and_few_spend_little(at_least: int, more: int) -> None:
    checkpoints = looks(rounds(at_least, at_least + more))
    assert (checkpoints[0], checkpoints[-1]) == (at_least, at_least + more)
    assert list(checkpoints) == sorted(set(checkpoints))
    assert looks(rounds(4, 30)) == (4, 6, 8, 11, 15, 21, 30)


def test_a_fixed_number_is_looked_at_once() -> None:
    fixed = Config.model_validate(generated.config(rounds=6)).load
    assert alpha(fixed) == ALPHA
    assert (alpha(None), alpha(fixed, early=True)) == (ALPHA, ALPHA_EARLY)
    assert alpha(measured()[0].load) == pytest.approx(ALPHA / len(looks(rounds(4, 12))))


@pytest.mark.parametrize(("precise", "last"), [(0.001, 12), (0.5, 4)])
def test_a_clear_case_ends_in_the_fewest_rounds(
    precise: float, last: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stopping, "MARGIN", precise)
    assert last_rounds(*measured()) == {STRUCTURED: 4, ("open-ended", LOAD): last}


@pytest.mark.usefixtures("decided_alone")
@pytest.mark.parametrize("until", [4, 5, 8])
def test_what_ended_stays_ended_and_what_was_not_measured_changes_nothing(until: int) -> None:
    config, records = measured()
    last = last_rounds(config, records)
    so_far = [r for r in records if r.round <= min(until, last[r.case, LOAD])]
    assert last_rounds(config, so_far) == last


def test_a_case_with_requests_missing_or_failed_does_not_end() -> None:
    config, records = measured()
    for variant in ("Base", "SD"):
        turn = "structured", variant, 3
        first = next(r for r in records if (r.case, r.variant, r.round) == turn)
        assert last_rounds(config, [r for r in records if r is not first])[STRUCTURED] == 12
    failing = [
        dataclasses.replace(r, error="reset")
        if (r.case, r.variant) == ("structured", "SD") and r.request[-1] in "012"
        else r
        for r in records
    ]
    assert last_rounds(config, failing)[STRUCTURED] == 12


@pytest.mark.usefixtures("decided_alone")
def test_rounds_beyond_the_last_count_if_they_are_whole() -> None:
    config, records = measured()
    assert measured_rounds(config, [r for r in records if r.round <= 4])[STRUCTURED] == 4
    first = next(r for r in records if (r.case, r.round) == ("structured", 7))
    assert measured_rounds(config, [r for r in records if r is not first])[STRUCTURED] == 6


def test_missing_counts_each_round() -> None:
    _, records = measured()
    selected = [r for r in records if (r.case, r.variant) == ("structured", "SD")]
    assert missing(selected, 4, 12) == 0
    # Two too many in one round do not make up for two too few in another.
    swapped = [dataclasses.replace(r, round=1) if r.round == 2 else r for r in selected]
    assert missing(swapped, 4, 12) == 4
