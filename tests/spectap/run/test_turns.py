"""The order of a run's turns, and what a restarted run need not do again."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from spectap.config import Config
from spectap.record import Record
from spectap.run.turns import MAXIMUM_ATTEMPTS, Attempts, Turn, orders, rotated
from tests.spectap import samples

CONFIG = samples.config()
(POINT,) = CONFIG.load.points
LADDER = samples.config(
    load=samples.loads({"concurrency": 1, "requests": 2}, {"rate": 0.5, "requests": 3}, rounds=1)
)


def of(turn: Turn, config: Config = CONFIG) -> list[Record]:
    """The ledger lines of a complete turn."""
    return [
        samples.record(case=turn.case, load=turn.load, round=turn.round, variant=variant)
        for variant in ("Base", "SD")
        for _ in range(config.load.point(turn.load).requests)
    ]


@pytest.fixture
def attempts(tmp_path: Path) -> Attempts:
    return Attempts(tmp_path, CONFIG, [])


def test_each_round_takes_all_cases_and_begins_with_another_one(attempts: Attempts) -> None:
    assert attempts.turns == attempts.pending
    assert attempts.turns == [
        *(Turn(1, case, POINT.name) for case in ("counting", "sonnets")),
        *(Turn(2, case, POINT.name) for case in ("sonnets", "counting")),
    ]


def test_a_turn_is_complete_with_the_requests_of_its_own_load_point(tmp_path: Path) -> None:
    first = Attempts(tmp_path, LADDER, [])
    rate, loop = Turn(1, "counting", "rate-0.5"), Turn(1, "counting", "concurrency-1")
    first.note(rate, None)
    first.note(loop, None)
    records = [*of(rate, LADDER), *of(loop, LADDER)]
    assert not {rate, loop} & {*Attempts(tmp_path, LADDER, records).pending}
    # Of a rate half is enough: a service that falls behind fails some.
    for less, pending in ((1, {loop}), (2, {rate, loop})):
        remaining = [*of(rate, LADDER)[less:], *of(loop, LADDER)[less:]]
        assert {rate, loop} & {*Attempts(tmp_path, LADDER, remaining).pending} == pending


def test_a_complete_turn_stays_complete(tmp_path: Path, attempts: Attempts) -> None:
    finished, *unfinished = attempts.turns
    attempts.note(finished, None)
    again = Attempts(tmp_path, CONFIG, of(finished))
    for state in (attempts, again):
        assert state.pending == unfinished
        assert state.settled == [finished]
        assert state.failures == {}


def test_a_failed_turn_is_tried_again_but_not_for_ever(tmp_path: Path, attempts: Attempts) -> None:
    turn = attempts.turns[0]
    for attempt in range(MAXIMUM_ATTEMPTS):
        assert turn in Attempts(tmp_path, CONFIG, []).pending
        attempts.note(turn, f"failure {attempt}")
    # Where variants are measured apart, the Job counts pods.
    isolated = CONFIG.model_copy(update={"apart": True, "variants": CONFIG.variants[:1]})
    assert turn in Attempts(tmp_path, isolated, []).pending
    again = Attempts(tmp_path, CONFIG, [])
    assert turn not in again.pending
    assert again.settled == [turn]
    assert again.failures == {turn: "failure 2"}


def test_a_case_that_ends_early_has_no_turns_after_its_last_round(attempts: Attempts) -> None:
    for turn in attempts.turns:
        attempts.note(turn, "failed")
    counting, sonnets = ("counting", POINT.name), ("sonnets", POINT.name)
    *others, last = attempts.turns
    assert last == Turn(2, *counting)
    for ended in ({counting: 1}, {}):
        assert attempts.end({counting: 1, sonnets: 2}) == ended
        assert attempts.turns == attempts.pending == [*attempts.failures] == others


def test_attempts_are_numbered_on_from_the_ledger(tmp_path: Path, attempts: Attempts) -> None:
    first, second, *_ = attempts.turns
    assert [attempts.begin(turn) for turn in (first, first, second)] == [1, 2, 1]
    # Attempt 2 was killed: it has a request in the ledger and no line among the attempts.
    killed = samples.record(case=first.case, load=first.load, round=first.round, attempt=2)
    again = Attempts(tmp_path, CONFIG, [*of(first), killed])
    assert [again.begin(turn) for turn in (first, second)] == [3, 1]


def test_a_turn_is_complete_by_its_last_attempt_only(tmp_path: Path, attempts: Attempts) -> None:
    turn = attempts.turns[0]
    attempts.note(turn, None)
    again = Attempts(tmp_path, CONFIG, [*of(turn), replace(of(turn)[0], attempt=2)])
    assert turn in again.pending


def test_orders_are_shuffled_alike_each_time_and_begin_as_given() -> None:
    first, *others = orders(range(10), 10)
    assert first == tuple(range(10))
    assert [first, *others] == [*orders(range(10), 30)][:10]
    assert len({*others, first}) == 10
    assert all(sorted(order) == [*first] for order in others)


@pytest.mark.parametrize("count", [1, 2, 3])
def test_every_variant_is_the_first_to_start_equally_often(count: int) -> None:
    first = Counter(rotated(range(count), number)[0] for number in range(1, 6 * count + 1))
    assert first == dict.fromkeys(range(count), 6)
    assert sorted(rotated(range(count), 1)) == list(range(count))
