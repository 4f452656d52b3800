"""A variant that is measured alone: its controls, and what needs the others is left out."""

from __future__ import annotations

import json
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from rehearsal.golden.faults import Fault
from spectap.config import Config
from spectap.endpoint import greedy
from spectap.names import ANSWERS, CONTROL, LEDGER
from spectap.run.turns import MAXIMUM_ATTEMPTS
from tests.spectap import samples
from tests.spectap.run.runs import Setup
from tests.spectap.standins import InProcess

pytestmark = pytest.mark.anyio


class Alone(Setup):
    """Only Base's endpoint is measured, in batches of ``batch``."""

    def __init__(self, folder: Path, batch: int | None = None, **changes: Any) -> None:
        super().__init__(folder, apart=True, **changes)
        self._batch = batch

    def config(self) -> Config:
        config = super().config()
        base = config.variants[0].model_copy(update={"batch": self._batch})
        return config.model_copy(update={"variants": (base,)})

    def rounds(self) -> list[tuple[int, int, int]]:
        """Round, attempt and number of requests, as they follow each other in the ledger."""
        turns = groupby(self.records(), key=lambda r: (r.round, r.attempt, r.case))
        return [(round, attempt, len([*records])) for (round, attempt, _), records in turns]


class Choosy(InProcess):
    """The server has too much to do whenever one of these loads comes."""

    def __init__(self, setup: Alone, *refused: str) -> None:
        super().__init__(None, setup.folder.parent)
        self.setup, self.refused = setup, refused

    async def run(self, **arguments: Any) -> None:
        refuses = arguments["results"].name in self.refused
        self.setup.base.fault = Fault.TOO_MANY if refuses else None
        await super().run(**arguments)


async def test_it_begins_and_ends_with_a_control(tmp_path: Path) -> None:
    async with Alone(tmp_path) as setup:
        run = setup.run()
        assert await run.execute() == []
        assert run.complete
        assert [round for round, _, _ in setup.rounds()] == [0, CONTROL, 1, 1, 2, 2, CONTROL]
        assert {count for _, _, count in setup.rounds()} == {2}
        controls = [record for record in setup.records() if record.round == CONTROL]
        assert [(r.case, r.load, r.attempt) for r in controls] == [
            ("counting", "concurrency-2", attempt) for attempt in (1, 1, 2, 2)
        ]
        assert len(setup.published()) == 4
        assert not (setup.folder / greedy.DIVERGENCE).exists()


async def test_at_rates_a_control_is_a_full_batch(tmp_path: Path) -> None:
    load = samples.loads({"rate": 20.0, "requests": 2}, rounds=1)
    async with Alone(tmp_path, batch=3, load=load) as setup:
        assert await setup.execute() == []
        controls = [record for record in setup.records() if record.round == CONTROL]
        assert {record.load for record in controls} == {"concurrency-3"}
        assert len(controls) == 2 * 3


async def test_a_last_control_that_fails_is_done_again(tmp_path: Path) -> None:
    async with Alone(tmp_path) as setup:
        setup.driver = Choosy(setup, "control-attempt-2", "control-attempt-3")
        run = setup.run()
        assert await run.execute() == [
            "control load: Base: 0 of 2 requests succeeded: HTTP 429: Too many requests"
        ]
        assert not run.complete
        again = setup.run()
        assert await again.execute() == []
        assert again.complete


async def test_without_a_first_control_nothing_is_measured(tmp_path: Path) -> None:
    """Two at the end would not show what changed in between."""
    async with Alone(tmp_path) as setup:
        setup.driver = Choosy(setup, "control", "control-attempt-2")
        run = setup.run()
        assert await run.execute() == [
            "control load: Base: 0 of 2 requests succeeded: HTTP 429: Too many requests; "
            "4 of 4 turns were not run"
        ]
        assert (run.complete, run.never_served) == (False, False)
        assert {round for round, _, _ in setup.rounds()} == {0, CONTROL}
        assert await setup.run().execute() == []


async def test_one_control_is_not_enough(tmp_path: Path) -> None:
    """The ledger has lost a request of the first."""
    async with Alone(tmp_path) as setup:
        assert await setup.run().execute() == []
        path = setup.folder / LEDGER
        lines = path.read_text().splitlines(keepends=True)
        first = next(n for n, line in enumerate(lines) if json.loads(line)["round"] == CONTROL)
        path.write_text("".join(lines[:first] + lines[first + 1 :]))
        run = setup.run()
        assert not run.complete
        assert await run.execute() == []
        assert run.complete


async def test_answers_of_controls_are_not_checked(tmp_path: Path) -> None:
    case = {"name": "talks", "prompts": {"known": "mt-bench", "limit": 2}}
    load = samples.load(rounds=1)
    async with Alone(tmp_path, load=load, test_cases=[case]) as setup:
        assert await setup.run().execute() == []
        assert [round for round, _, _ in setup.rounds()] == [0, CONTROL, 1, CONTROL]
        answers = (setup.folder / ANSWERS).read_text()
        assert f'"round":{CONTROL}' not in answers


async def test_a_resumed_run_begins_with_another_control(tmp_path: Path) -> None:
    """However often a turn failed before: the Job counts pods."""
    async with Alone(tmp_path, load=samples.load(rounds=1)) as setup:
        setup.driver.fail.add(("sonnets", "Base"))
        for _ in range(MAXIMUM_ATTEMPTS):
            assert len(await setup.execute()) == 1
        setup.driver.fail.clear()
        assert await setup.execute() == []
        controls = [attempt for round, attempt, _ in setup.rounds() if round == CONTROL]
        assert controls == [*range(1, 9)]


async def test_where_only_the_last_control_is_missing_it_alone_is_done(tmp_path: Path) -> None:
    async with Alone(tmp_path) as setup:
        setup.driver = Choosy(setup, "control", "control-attempt-3")  # each is done once more
        assert await setup.execute() == []
        attempts = [attempt for round, attempt, _ in setup.rounds() if round in (CONTROL, 1)]
        assert attempts == [1, 2, 1, 1, 3, 4]
        progress = setup.folder / "progress.jsonl"
        lines = progress.read_text().splitlines(keepends=True)
        progress.write_text("".join(lines[:-1]))  # killed just before
        before = setup.rounds()
        assert await setup.execute() == []
        assert setup.rounds()[len(before) :] == [(0, 2, 2), (CONTROL, 5, 2)]
        assert len(setup.published()) == 4
