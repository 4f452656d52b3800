"""An open loop through a tap: what the ledger says of its schedule."""

from __future__ import annotations

import asyncio
import os
import signal
import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from spectap.analysis.cells import schedule
from spectap.config import TestCase
from spectap.load import loops
from spectap.load.driver import Driver
from spectap.load_points import Load, LoadPoint
from spectap.prompt import Prompt
from spectap.record import Record
from tests.spectap import samples
from tests.spectap.load.options import prompt
from tests.spectap.tapped import bench, golden

POINT = LoadPoint(rate=40, requests=60)
SEED = "counting/rate-40/1"


async def drive(folder: Path, prompts: Sequence[Prompt] = ()) -> list[Record]:
    """The records of one turn, in the order in which they were due."""
    async with golden(1, 4, 3) as endpoint, bench(endpoint.url, folder) as tapped:
        await Driver(None, folder / "scratch").run(
            model="Qwen/Qwen3-32B",
            case=TestCase.model_validate(samples.settings()["test_cases"][0]),
            prompts=prompts,
            shape=Load.model_validate(samples.load()),
            point=POINT,
            seed=SEED,
            endpoint=tapped.tap.url,
            results=folder / "llmperf" / "counting" / POINT.name / "SD" / "round-1",
        )
        return sorted(tapped.records(), key=lambda record: record.due or 0.0)


def lags(records: list[Record]) -> list[float]:
    return [record.sent - (record.due or 0.0) for record in records]


def test_the_ledger_has_when_each_prompt_was_due_and_was_sent(tmp_path: Path) -> None:
    prompts = [prompt(f"é/{number}", prompt_class="räumlich") for number in range(60)]
    records = asyncio.run(drive(tmp_path, prompts))
    assert [record.prompt for record in records] == [p.name for p in prompts]
    assert {record.prompt_class for record in records} == {"räumlich"}
    times = loops.arrivals(40, SEED, 60)
    due = [record.due or 0.0 for record in records]
    assert [at - due[0] for at in due] == pytest.approx([at - times[0] for at in times], abs=1e-4)
    assert min(lags(records)) >= 0
    # Generous: other programs may have this machine, too. `make bench` shows how exact it is.
    assert statistics.median(lags(records)) < 0.1


def test_a_driver_that_is_kept_from_running_is_marked_as_lagging(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stopped for 0.4 s in the midst of its load, as on a machine that is starved."""
    create = asyncio.create_subprocess_exec

    async def create_and_stop(*command: Any, **options: Any) -> asyncio.subprocess.Process:
        process = await create(*command, **options)
        stopping.append(asyncio.create_task(stop(process.pid)))
        return process

    async def stop(pid: int) -> None:
        while not (tmp_path / "ledger.jsonl").stat().st_size:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.3)
        os.kill(pid, signal.SIGSTOP)
        stopped.append(time.time())
        await asyncio.sleep(0.4)
        stopped.append(time.time())
        os.kill(pid, signal.SIGCONT)

    stopping: list[asyncio.Task[None]] = []
    stopped: list[float] = []
    monkeypatch.setattr(asyncio, "create_subprocess_exec", create_and_stop)
    records = asyncio.run(drive(tmp_path))
    assert len(records) == POINT.requests  # none is given up
    since, until = stopped
    blocked = [record for record in records if since < (record.due or 0.0) < until]
    assert blocked
    assert all(record.sent >= until for record in blocked)
    found = schedule(records, POINT.rate)
    assert found is not None
    assert found.worst > 0.2
    assert found.lagging
