"""A run from end to end, with golden endpoints: what is measured, kept, and done only once."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import aiohttp
import pytest

from experiment.runtimes import Engine
from rehearsal.golden.faults import FAULT_HEADER, Fault
from rehearsal.golden.schedule import Step
from rehearsal.golden.server import Golden
from spectap import config as configuration
from spectap.analysis import crosscheck
from spectap.endpoint import counters, greedy
from spectap.endpoint.counters import COUNTERS
from spectap.errors import RunError
from spectap.journal import Journal
from spectap.ledger import last_attempts, read_ledger
from spectap.names import ANSWERS, LEDGER, PROGRESS
from spectap.record import Record
from spectap.run.run import Patience, Run
from tests.spectap import samples
from tests.spectap.run.runs import Setup, golden, of
from tests.spectap.standins import QUICK, InProcess, Publisher

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("windows", [(), (3,)])
async def test_each_round_runs_each_case_on_all_variants_at_once(
    tmp_path: Path, windows: tuple[int, ...]
) -> None:
    async with Setup(tmp_path, windows) as setup:
        assert await setup.execute() == []
        variants = list(setup.endpoints)
        counts = Counter((r.variant, r.case, r.round) for r in setup.records())
        expected = {
            (variant, case, number): 2
            for variant in variants
            for case in ("counting", "sonnets")
            for number in (1, 2)
        } | {(variant, "counting", 0): 2 for variant in variants}
        assert counts == expected
        assert {r.run for r in setup.records()} == {"run-1"}
        assert all(r.succeeded and r.per_chunk for r in setup.records())
        assert setup.driver.ran[: len(variants)] == [
            ("counting", variant, "round-0") for variant in variants
        ]
        counted = counters.read(setup.folder / COUNTERS)
        assert [count.variant for count in counted] == variants * 4


async def test_each_variant_is_in_turn_the_first_to_start(tmp_path: Path) -> None:
    async with Setup(tmp_path, windows=(3,), load=samples.load(rounds=3)) as setup:
        assert await setup.execute() == []
        starts = [variant for case, variant, _ in setup.driver.ran if case == "counting"]
        assert [starts[place : place + 3] for place in range(0, len(starts), 3)] == [
            ["Base", "SD", "k3"],  # the warm-up
            ["SD", "k3", "Base"],
            ["k3", "Base", "SD"],
            ["Base", "SD", "k3"],
        ]


async def test_messages_name_the_variant(tmp_path: Path) -> None:
    async with Setup(tmp_path, windows=[3]) as setup:
        setup.driver.fail.add(("counting", "k3"))
        reason = "k3: llmperf ended with status 1: out of memory"
        assert await setup.execute() == [f"counting, round {n}: {reason}" for n in (1, 2)]


async def test_without_a_shipper_the_results_stay_in_the_folder(tmp_path: Path) -> None:
    async with Setup(tmp_path, bucket=None, region=None) as setup:
        assert await setup.run(ships=False).execute() == []
        assert len(setup.records()) == 2 * 2 * 4 + 2 * 2
        assert setup.events == []


async def test_raw_results_are_stored_before_their_metrics(tmp_path: Path) -> None:
    async with Setup(tmp_path) as setup:
        await setup.execute()
        assert setup.events == [
            *("upload", "publish counting 1", "upload", "publish sonnets 1"),
            *("upload", "publish sonnets 2", "upload", "publish counting 2", "upload"),
        ]
        stored = read_ledger(setup.bucket.target / LEDGER)
        assert stored == setup.records()
        for case, number, latencies in setup.publisher.published():
            of_turn = [r.request for r in stored if (r.case, r.round) == (case, number)]
            assert latencies == {request: [0.05] for request in of_turn}


async def test_a_complete_run_is_not_run_again(tmp_path: Path) -> None:
    async with Setup(tmp_path) as setup:
        await setup.execute()
        before, ran = setup.records(), len(setup.driver.ran)
        assert await setup.execute() == []
        assert setup.records() == before
        assert len(setup.driver.ran) == ran
        assert len(setup.published()) == 4


@pytest.mark.parametrize("engine", Engine)
async def test_either_engine_of_vllm_counts_what_the_ledger_has(
    tmp_path: Path, engine: Engine
) -> None:
    setup = Setup(tmp_path)
    setup.base, setup.speculative = golden(engine=engine), golden(engine=engine)
    async with setup:
        assert await setup.execute() == []
        checks = crosscheck.check(setup.records(), counters.read(setup.folder / COUNTERS))
        assert len(checks) == 4
        for check in checks:
            compared = [(f.name, f.ledger, f.server) for f in check.figures]
            assert compared == [("tokens", 80, 80), ("steps", 28, 28)]


async def test_a_server_that_counts_otherwise_fails_the_run(tmp_path: Path) -> None:
    async with Setup(tmp_path) as setup:
        assert await setup.execute() == []
        path = setup.folder / COUNTERS
        first, *others = path.read_text().splitlines(keepends=True)
        assert first.count('_tokens":40,') == 2
        path.write_text("".join([first.replace('_tokens":40,', '_tokens":41,'), *others]))
        assert await setup.execute() == [
            "counting, concurrency-2, Base: tokens: 80 in the ledger, 81 by the server's own "
            "count, 1.2% apart"
        ]


async def test_answers_are_compared_once_all_is_measured(tmp_path: Path) -> None:
    async with Setup(tmp_path) as setup:
        await setup.execute()
        found = greedy.read(setup.bucket.target)
        assert [(d.case, d.first) for d in found] == [("counting", None), ("sonnets", None)]
        assert len(setup.base.sent) == len(setup.records()) / 2 + 2


async def test_waits_for_all_variants(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async with Setup(tmp_path) as setup:
        setup.speculative.healthy = False
        running = asyncio.create_task(setup.execute())
        await asyncio.sleep(0.2)
        assert setup.base.sent == []
        setup.speculative.healthy = True
        assert await running == []
    assert "waiting for SD" in capsys.readouterr().err


async def test_an_endpoint_that_never_serves(tmp_path: Path) -> None:
    async with Setup(tmp_path) as setup:
        setup.speculative.healthy = False
        failed = await setup.run(Patience(start=0.1, poll=0.02)).execute()
        assert failed == [
            f"not serving after 0 s: SD ({setup.speculative.url}), at the last try: HTTP 503; "
            "4 of 4 turns were not run"
        ]


async def test_an_endpoint_that_dies_in_mid_case(tmp_path: Path) -> None:
    """What it sent is kept, the case is named, and the next start does what is missing."""

    mortal = True

    def dies(prompt: str, number: int, length: int) -> list[Step]:
        if not mortal:
            return [Step(0.001, 2)]
        if len(setup.speculative.sent) > 6:  # after warm-up and the first two cases
            asyncio.get_running_loop().create_task(setup.speculative.stop())
        return [Step(0.01 * (index + 1), 2) for index in range(40)]

    setup = Setup(tmp_path)
    setup.speculative = Golden(dies)
    async with setup:
        port = setup.speculative.port
        failed = await setup.execute()
        assert len(failed) == 2
        assert failed[0].startswith("sonnets, round 2: SD: 0 of 2 requests succeeded: ")
        assert "2 of 4 turns" in failed[1] or "1 of 4 turns" in failed[1]
        lost = [r for r in setup.records() if not r.succeeded]
        assert {(r.variant, r.case, r.round) for r in lost} == {("SD", "sonnets", 2)}
        assert all(r.chunks for r in lost), "what came before it died is kept"
        assert len(setup.published()) == 2

        mortal = False
        await setup.speculative.start(port)
        kept = setup.records()
        assert await setup.execute() == []
        assert setup.records()[: len(kept)] == kept
        assert all(r.succeeded for r in last_attempts(setup.records()))
        assert {r.attempt for r in setup.records() if r.round == 1} == {1}
        assert len(setup.published()) == 4
        assert len(set(setup.published())) == 4


async def test_a_driver_that_fails_on_one_case_does_not_stop_the_others(tmp_path: Path) -> None:
    async with Setup(tmp_path) as setup:
        setup.driver.fail.add(("counting", "SD"))
        reason = "SD: llmperf ended with status 1: out of memory"
        expected = [f"counting, round {number}: {reason}" for number in (1, 2)]
        assert await setup.execute() == expected
        assert setup.published() == ["publish sonnets 1", "publish sonnets 2"]
        for _ in range(2):
            assert await setup.execute() == expected
        # Given up by now: what there is of it is published, and it is not run any more.
        ran = len(setup.driver.ran)
        assert await setup.execute() == expected
        assert len(setup.driver.ran) == ran
        assert len(setup.published()) == 4


async def test_requests_that_fail_fail_their_case(tmp_path: Path) -> None:
    async with Setup(tmp_path) as setup:
        setup.base.fault = Fault.TOO_MANY
        failed = await setup.execute()
        assert len(failed) == 4
        assert failed[0] == (
            "counting, round 1: Base: 0 of 2 requests succeeded: HTTP 429: Too many requests"
        )


class HalfFail(InProcess):
    """Every second request is refused."""

    async def _one(
        self, session: aiohttp.ClientSession, endpoint: str, body: dict[str, object]
    ) -> None:
        self.fail.add(("request", str(len(self.fail))))
        headers = {FAULT_HEADER: Fault.TOO_MANY.value} if len(self.fail) % 2 else {}
        async with session.post(f"{endpoint}/chat/completions", json=body, headers=headers) as got:
            await got.read()


@pytest.mark.parametrize("batch", [2, 1])
async def test_beyond_the_batch_failures_are_what_the_load_does(tmp_path: Path, batch: int) -> None:
    """Two requests at once: a turn is not repeated until neither of them fails."""
    async with Setup(tmp_path) as setup:
        setup.driver = HalfFail(None, tmp_path)
        config = setup.config()
        variants = tuple(v.model_copy(update={"batch": batch}) for v in config.variants)
        config = config.model_copy(update={"variants": variants})
        run = Run(config, setup.folder, driver=setup.driver, patience=QUICK)
        failed = await run.execute()
    measured = [record for record in setup.records() if record.round > 0]
    assert sum(record.succeeded for record in measured) == len(measured) / 2
    assert len(failed) == (4 if batch == 2 else 0)


async def test_a_store_that_fails_for_a_while_delays_metrics_and_loses_nothing(
    tmp_path: Path,
) -> None:
    async with Setup(tmp_path) as setup:
        setup.bucket.failing = True
        assert await setup.execute() == ["the bucket cannot be reached"]
        # Tried once in mid-run and once at the end: a node must not idle for a bucket.
        assert setup.events == ["upload failed"] * 2
        setup.bucket.failing = False
        assert await setup.execute() == []
        assert setup.events[2] == "upload"
        assert len(setup.published()) == 4
        assert len([r for r in setup.records() if r.round > 0]) == 16


async def test_metrics_that_cannot_be_published_are_published_later(tmp_path: Path) -> None:
    async with Setup(tmp_path) as setup:
        setup.publisher.failing = True
        assert await setup.execute() == ["throttled for too long"]
        assert read_ledger(setup.bucket.target / LEDGER) == setup.records()
        setup.publisher.failing = False
        assert await setup.execute() == []
        assert len(setup.published()) == 4


async def test_a_ledger_that_cannot_be_written_ends_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(self: object, record: Record) -> None:
        raise OSError(28, "No space left on device")

    async with Setup(tmp_path) as setup:
        monkeypatch.setattr(Journal, "append", full)
        with pytest.raises(RunError, match=r"cannot be written: .*No space left"):
            await setup.execute()


async def test_answers_that_cannot_be_read_are_not_checked_and_the_run_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    load = samples.load(rounds=1)
    case = {"name": "talks", "prompts": {"known": "mt-bench", "limit": 2}}
    async with Setup(tmp_path, load=load, test_cases=[case]) as setup:
        (tmp_path / "answers-SD.jsonl").write_text('{"prompt": "a"}\n', encoding="utf-8")
        assert await setup.execute() == []
    said = capsys.readouterr().err
    assert "answers not checked: talks, round 1: " in said
    assert "answers-SD.jsonl:1: content: Field required" in said
    assert (setup.folder / ANSWERS).read_text() == ""


@pytest.mark.parametrize("name", [LEDGER, COUNTERS, PROGRESS])
async def test_a_folder_with_a_broken_journal_is_refused_in_one_line(
    tmp_path: Path, name: str
) -> None:
    async with Setup(tmp_path) as setup:
        setup.folder.mkdir()
        (setup.folder / name).write_text("{}\n", encoding="utf-8")
        with pytest.raises(RunError, match=rf"{name}:1: \w+: Field required") as refusal:
            setup.run()
        assert "\n" not in str(refusal.value)


@pytest.fixture
def endpoints() -> Iterator[Callable[[], list[str]]]:
    """Starts golden endpoints in processes of their own; ends them."""
    processes: list[subprocess.Popen[str]] = []

    def start() -> list[str]:
        urls = []
        for window in (1, 7):
            options = ["--window", str(window), "--speed", "4"]
            process = subprocess.Popen(
                [sys.executable, "-m", "rehearsal.golden", *options],
                stdout=subprocess.PIPE,
                text=True,
            )
            processes.append(process)
            assert process.stdout is not None
            urls.append(process.stdout.readline().strip())
        return urls

    yield start
    for process in processes:
        process.terminate()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def test_kill_9_in_the_middle_and_again(tmp_path: Path, endpoints: Callable[[], list[str]]) -> None:
    """Complete cases are not run again, nothing recorded is lost, nothing is published twice."""
    base, speculative = endpoints()
    config = of({"Base": base, "SD": speculative})
    (tmp_path / "config.json").write_text(configuration.dump(config), encoding="utf-8")
    folder = tmp_path / "run-1"
    command = [
        *(sys.executable, "-m", "tests.spectap.standins"),
        *(str(tmp_path / "config.json"), str(folder)),
    ]
    seen: list[str] = []
    complete: list[bytes] = []
    for attempts in (1, 2):
        process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        _wait_until(lambda: _lines(folder / PROGRESS) >= attempts, process)  # noqa: B023 (called within the loop)
        time.sleep(0.15)  # into the next case
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        after = [record.request for record in read_ledger(folder / LEDGER)]
        assert after[: len(seen)] == seen
        assert len(after) > len(seen)
        seen = after
        lines = (folder / PROGRESS).read_bytes().splitlines()
        assert lines[: len(complete)] == complete
        complete = lines
    assert subprocess.run(command, check=False, capture_output=True).returncode == 0

    records = read_ledger(folder / LEDGER)
    assert [record.request for record in records][: len(seen)] == seen
    entries = [json.loads(line) for line in (folder / PROGRESS).read_bytes().splitlines()]
    turns = [(entry["round"], entry["case"]) for entry in entries]
    assert sorted(turns) == [(1, "counting"), (1, "sonnets"), (2, "counting"), (2, "sonnets")]
    published = Publisher(tmp_path / "published.jsonl", []).published()
    assert len(published) == 4
    requests = [request for _, _, latencies in published for request in latencies]
    assert len(requests) == len(set(requests))
    counted = [record for record in last_attempts(records) if record.round > 0]
    good = {record.request for record in counted if record.succeeded}
    assert set(requests) == good


def _wait_until(condition: Callable[[], bool], process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert process.poll() is None, "it ended before it could be killed"
        assert time.monotonic() < deadline
        time.sleep(0.01)


def _lines(path: Path) -> int:
    return path.read_bytes().count(b"\n") if path.exists() else 0
