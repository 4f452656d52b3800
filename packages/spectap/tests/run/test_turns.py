"""The order of a run's turns, what a restart need not do again, and what a run says beforehand."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from spectap.errors import RunError
from spectap.inputs import config as configuration
from spectap.inputs.config import Config
from spectap.load.driver import Driver
from spectap.load.llmperf import Installation
from spectap.names import COMPLETE
from spectap.records.record import Record
from spectap.run.folder import Shipper, prepare
from spectap.run.turns import MAXIMUM_ATTEMPTS, Attempts, Plan, Turn, orders
from tests import samples
from tests.standins import Publisher

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


def test_a_failed_turn_is_tried_again_but_not_for_ever(tmp_path: Path, attempts: Attempts) -> None:
    turn = attempts.turns[0]
    for attempt in range(MAXIMUM_ATTEMPTS):
        assert turn in Attempts(tmp_path, CONFIG, []).pending
        attempts.note(turn, f"failure {attempt}")
    # Where variants are measured apart, the Job counts pods.
    isolated = CONFIG.model_copy(update={"isolated": True, "variants": CONFIG.variants[:1]})
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
    # A turn is complete by its last attempt only.
    attempts.note(first, None)
    assert first not in Attempts(tmp_path, CONFIG, of(first)).pending
    assert first in Attempts(tmp_path, CONFIG, [*of(first), killed]).pending


def test_orders_are_shuffled_alike_each_time_and_begin_as_given() -> None:
    first, *others = orders(range(10), 10)
    assert first == tuple(range(10))
    assert [first, *others] == [*orders(range(10), 30)][:10]
    assert len({*others, first}) == 10
    assert all(sorted(order) == [*first] for order in others)


def test_a_run_is_not_mixed_with_another_configuration(tmp_path: Path) -> None:
    prepare(tmp_path / "run", samples.config())
    prepare(tmp_path / "run", samples.config())
    with pytest.raises(RunError, match=r"another configuration \(settings\): set a new RUN_ID"):
        prepare(tmp_path / "run", samples.config(settings={"Image": "2"}))
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(RunError, match="cannot be written"):
        prepare(tmp_path / "file", samples.config())


BEGUN: Any = {"settings": {"Target": "t", "Price": "35.76 USD"}, "isolated": True}
LATER: Any = BEGUN | {
    "settings": {"Target": "t", "Price": "40.25 USD"},
    "objectives": {"ttft_p90_ms": 900},
}


def test_a_variant_goes_on_at_another_price(tmp_path: Path) -> None:
    for config in (BEGUN, LATER):
        prepare(tmp_path, samples.config(**config))
        stored = configuration.read(tmp_path / "config.json")
        assert stored == samples.config(**config)
    with pytest.raises(RunError, match=r"another configuration \(keep_answers\)"):
        prepare(tmp_path, samples.config(**LATER, keep_answers=True))
    # What is complete stays as it was measured.
    (tmp_path / COMPLETE).touch()
    prepare(tmp_path, samples.config(**BEGUN))
    assert configuration.read(tmp_path / "config.json") == stored


def test_a_settled_turn_is_published_whole_by_its_last_attempt() -> None:
    """Failed requests have no values of their own, but the turn's totals have their time."""
    records = [
        samples.record(request="first attempt"),
        samples.record(request="good", attempt=2),
        samples.record(request="of another variant", variant="Base", attempt=2),
        samples.record(request="reset", error="reset", attempt=2),
        samples.record(request="warm-up", round=0),
        samples.record(request="later", round=2),
    ]
    events: list[str] = []
    publisher = Publisher(events)
    shipper = Shipper(lambda: events.append("upload"), publisher.publish)
    for _ in range(2):
        assert asyncio.run(shipper.ship([Turn(1, "counting", "")], records)) is None
    assert publisher.published == ["good", "of another variant", "reset"]
    assert events == ["upload", "publish counting 1", "upload"]


def test_the_built_in_driver_fills_a_closed_loop() -> None:
    points = ({"concurrency": 2, "requests": 5}, {"rate": 4, "requests": 20})
    config = samples.config(load=samples.loads(*points))
    turns = [Turn(1, "counting", point.name) for point in config.load.points]
    for installation, requests in ((Installation("python", Path()), 50), (None, 54)):
        assert Plan(config, Driver(installation, Path())).requests(turns) == requests
