"""What a restarted run need not do again."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmark.record import Record
from benchmark.run.attempts import MAXIMUM_ATTEMPTS, PROGRESS, Pair, State
from tests.benchmark import samples

CONFIG = samples.config()


def of(pair: Pair) -> list[Record]:
    """The ledger lines of a complete pair."""
    return [
        samples.record(case=pair.case, round=pair.round, variant=variant)
        for variant in ("Base", "SD")
        for _ in range(CONFIG.load.requests)
    ]


@pytest.fixture
def state(tmp_path: Path) -> State:
    return State(tmp_path, CONFIG, [])


def test_each_round_takes_all_cases_in_turn(state: State) -> None:
    assert state.pairs == state.pending
    assert state.pairs == [
        Pair(1, "counting"),
        Pair(1, "sonnets"),
        Pair(2, "counting"),
        Pair(2, "sonnets"),
    ]


def test_a_complete_pair_stays_complete(tmp_path: Path, state: State) -> None:
    done, *others = state.pairs
    state.note(done, None)
    again = State(tmp_path, CONFIG, of(done))
    for each in (state, again):
        assert each.pending == others
        assert each.settled == [done]
        assert each.failures == {}


def test_a_pair_whose_requests_are_not_in_the_ledger_is_not_complete(
    tmp_path: Path, state: State
) -> None:
    done = state.pairs[0]
    state.note(done, None)
    again = State(tmp_path, CONFIG, of(done)[1:])
    assert done in again.pending
    assert "ledger" in again.failures[done]


def test_a_failed_pair_is_tried_again_but_not_for_ever(tmp_path: Path, state: State) -> None:
    pair = state.pairs[0]
    for attempt in range(MAXIMUM_ATTEMPTS):
        assert pair in State(tmp_path, CONFIG, []).pending
        state.note(pair, f"failure {attempt}")
    again = State(tmp_path, CONFIG, [])
    assert pair not in again.pending
    assert again.settled == [pair]
    assert again.failures == {pair: "failure 2"}


def test_success_after_failure_is_success(state: State) -> None:
    pair = state.pairs[0]
    state.note(pair, "failed")
    state.note(pair, None)
    assert state.failures == {}
    assert pair not in state.pending


def test_a_torn_line_counts_as_no_attempt(tmp_path: Path, state: State) -> None:
    state.note(state.pairs[0], None)
    state.close()
    path = tmp_path / PROGRESS
    path.write_bytes(path.read_bytes() + b'{"round":1,"ca')
    assert State(tmp_path, CONFIG, of(state.pairs[0])).settled == [state.pairs[0]]
