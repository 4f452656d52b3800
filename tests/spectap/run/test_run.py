"""A run from end to end, with golden endpoints: what is measured, kept, and done only once."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from unittest.mock import Mock

import aiohttp
import pytest

from experiment.runtimes import Engine
from rehearsal.golden.faults import FAULT_HEADER, Fault
from rehearsal.golden.schedule import Step
from rehearsal.golden.server import Golden
from spectap.analysis import crosscheck, stopping
from spectap.analysis.summarise import summarise
from spectap.analysis.summary import Finding
from spectap.config import Config
from spectap.endpoint import counters, greedy
from spectap.endpoint.counters import COUNTERS
from spectap.errors import RunError
from spectap.journal import Journal
from spectap.ledger import last_attempts, read_ledger
from spectap.names import ANSWERS, LEDGER, PROGRESS
from spectap.record import Record
from spectap.run.run import Run
from spectap.run.taps import Patience
from spectap.run.turns import MAXIMUM_ATTEMPTS
from tests.spectap import samples
from tests.spectap.run.runs import Setup, golden
from tests.spectap.standins import QUICK, InProcess

pytestmark = pytest.mark.anyio


async def test_a_run_from_end_to_end(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It waits until all variants serve, runs each case in each round on all of them, and ships.

    One server counts as vLLM's V0 does, the others as its V1.
    """
    setup = Setup(tmp_path, windows=(3,))
    setup.base = golden(engine=Engine.V0)
    async with setup:
        setup.speculative.healthy = False
        running = asyncio.create_task(setup.execute())
        await asyncio.sleep(0.2)
        assert setup.base.sent == []
        setup.speculative.healthy = True
        assert await running == []
        printed = capsys.readouterr().err
        assert "waiting for SD" in printed
        assert "warm-up: " not in printed

        records, names = setup.records(), ["Base", "SD", "k3"]
        turns = [("counting", 1), ("sonnets", 1), ("sonnets", 2), ("counting", 2)]
        assert Counter((r.variant, r.case, r.round) for r in records) == {
            (name, *turn): 2 for name in names for turn in [("counting", 0), *turns]
        }
        assert {r.run for r in records} == {"run-1"}
        assert all(r.succeeded and r.per_chunk for r in records)
        # Each variant is in its turn the first to start.
        assert [ran[:2] for ran in setup.driver.ran[:6]] == [
            ("counting", name) for name in ("Base", "SD", "k3", "SD", "k3", "Base")
        ]
        checks = crosscheck.check(records, counters.read(setup.folder / COUNTERS))
        assert [check.variant for check in checks] == names * 2
        for check in checks:
            compared = [(f.name, f.ledger, f.server) for f in check.figures]
            assert compared == [("tokens", 80, 80), ("steps", 28, 28)]

        # Raw results are stored before their metrics.
        events = [event for turn in turns for event in ("upload", "publish {} {}".format(*turn))]
        assert setup.events == [*events, "upload"]
        assert read_ledger(setup.bucket.target / LEDGER) == records
        divergences = greedy.read(setup.bucket.target)
        assert [(d.case, d.first) for d in divergences] == [
            (case, None) for case in ("counting", "sonnets") for _ in names[1:]
        ]
        assert len(setup.base.sent) == len(records) / 3 + 2

        ran = len(setup.driver.ran)
        assert await setup.execute() == []
        assert "every case is complete" in capsys.readouterr().err
        assert (setup.records(), len(setup.driver.ran)) == (records, ran)
        assert len(setup.published()) == 4

        path = setup.folder / COUNTERS
        path.write_text(path.read_text().replace('_tokens":40,', '_tokens":41,', 2))
        (failed,) = await setup.execute()
        assert failed.startswith("counting, concurrency-2, Base: tokens: 80 in the ledger, 81 by")


async def test_variants_that_alternate_never_overlap(tmp_path: Path) -> None:
    async with Setup(tmp_path, alternate=True, load=samples.load(rounds=1)) as setup:
        assert await setup.execute() == []
    records = sorted(setup.records(), key=lambda record: record.sent)
    assert len(records) == 2 * 6
    for before, after in pairwise(records):
        assert before.variant == after.variant or before.sent + before.end <= after.sent


async def test_a_server_that_answers_nothing_ends_the_turn_and_then_the_run(tmp_path: Path) -> None:
    setup = Setup(tmp_path, load=samples.load(rounds=4))
    setup.speculative = Golden(
        lambda prompt, number, length: [Step(0.001 if len(setup.speculative.sent) < 2 else 99, 1)]
    )
    async with setup:
        failed = await setup.run(Patience(stall=0.3, poll=0.02, counters=0.01)).execute()
    cause = "SD: 0 of 2 requests succeeded: stalled: nothing came for 0.3 s"
    assert failed[:3] == [
        f"counting, round 1: {cause}",
        f"sonnets, round 1: {cause}",
        "SD answered nothing in two turns on end; 6 of 8 turns were not run",
    ]
    measured = [r for r in setup.records() if r.round > 0]
    assert [r.succeeded for r in measured if r.variant == "Base"] == [True] * 4


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
        before = setup.records()
        assert await setup.execute() == []
        assert setup.records()[: len(before)] == before
        assert all(r.succeeded for r in last_attempts(setup.records()))
        assert {r.attempt for r in setup.records() if r.round == 1} == {1}
        assert len(setup.published()) == len(set(setup.published())) == 4


async def test_a_driver_that_fails_on_one_case_does_not_stop_the_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with Setup(tmp_path) as setup:
        setup.driver.fail.add(("counting", "SD"))
        reason = "SD: llmperf ended with status 1: out of memory"
        expected = [f"counting, round {number}: {reason}" for number in (1, 2)]
        for _ in range(MAXIMUM_ATTEMPTS):
            assert await setup.execute() == expected
        assert setup.published()[:2] == ["publish sonnets 1", "publish sonnets 2"]
        assert f"] warm-up: {reason}\n" in capsys.readouterr().err
        # Given up by now: what there is of it is published, and it is not run any more.
        ran = len(setup.driver.ran)
        assert await setup.execute() == expected
        assert len(setup.driver.ran) == ran
        assert len(setup.published()) == 4


class HalfFail(InProcess):
    """Every second request is refused."""

    async def _send(
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


async def test_what_cannot_be_shipped_is_shipped_later(tmp_path: Path) -> None:
    async with Setup(tmp_path) as setup:
        setup.bucket.failing = True
        assert await setup.execute() == ["the bucket cannot be reached"]
        # Tried once in mid-run and once at the end: a node must not idle for a bucket.
        assert setup.events == ["upload failed"] * 2
        setup.bucket.failing, setup.publisher.failing = False, True
        run = setup.run()
        assert await run.execute() == ["throttled for too long"]
        assert (run.complete, run.shipped) == (True, False)
        assert read_ledger(setup.bucket.target / LEDGER) == setup.records()
        setup.publisher.failing = False
        assert await setup.execute() == []
        assert len(setup.published()) == 4


async def test_a_ledger_that_cannot_be_written_ends_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Setup(tmp_path) as setup:
        full = OSError(28, "No space left on device")
        monkeypatch.setattr(Journal, "append", Mock(side_effect=full))
        with pytest.raises(RunError, match=r"cannot be written: .*No space left"):
            await setup.execute()


async def test_answers_that_cannot_be_read_are_not_checked_and_the_run_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    case = {"name": "talks", "prompts": {"known": "mt-bench", "limit": 2}}
    async with Setup(tmp_path, load=samples.load(rounds=1), test_cases=[case]) as setup:
        (tmp_path / "answers-SD.jsonl").write_text('{"prompt": "a"}\n', encoding="utf-8")
        assert await setup.execute() == []
    printed = capsys.readouterr().err
    assert re.search(r"answers not checked: talks, round 1: .*SD.jsonl:1: content: Field", printed)
    assert (setup.folder / ANSWERS).read_text() == ""


@pytest.mark.parametrize("name", [LEDGER, COUNTERS, PROGRESS])
async def test_a_folder_with_a_broken_journal_is_refused(tmp_path: Path, name: str) -> None:
    async with Setup(tmp_path) as setup:
        setup.folder.mkdir()
        (setup.folder / name).write_text("{}\n", encoding="utf-8")
        with pytest.raises(RunError, match=rf"^[^\n]*{name}:1: \w+: Field required$"):
            setup.run()


class Rule:
    """Ends ``counting`` once all variants have answered in its third round; notes each question.

    It stands for the rule by statistics, for which a golden endpoint is too quick.
    """

    def __init__(self) -> None:
        self.asked: list[int] = []

    def __call__(self, config: Config, records: Iterable[Record]) -> dict[tuple[str, str], int]:
        records = list(records)
        self.asked.append(max((r.round for r in records), default=0))
        measured = {
            r.variant for r in records if (r.case, r.round) == ("counting", 3) and r.succeeded
        }
        decided = measured == set(config.endpoints)
        load = config.load.points[0].name
        return {("counting", load): 3 if decided else 5, ("sonnets", load): 5}


async def test_a_case_that_is_decided_is_measured_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rule = Rule()
    monkeypatch.setattr(stopping, "last_rounds", rule)
    load = samples.load(rounds={"at_least": 3, "at_most": 5, "half_width": 0.05})
    async with Setup(tmp_path, load=load) as setup:
        setup.speculative.healthy = False
        (failed,) = await setup.run(Patience(start=0.1, poll=0.02)).execute()
        assert failed.endswith("; 10 of at most 10 turns were not run")
        setup.speculative.healthy = True
        assert await setup.execute() == []
        measured = Counter(r.case for r in setup.records() if r.round > 0)
        assert measured == {"counting": 3 * 2 * 2, "sonnets": 5 * 2 * 2}
        assert rule.asked == [1, 2, 3, 4, 5]
        assert len(setup.published()) == 8
        ran = len(setup.driver.ran)
        assert await setup.execute() == []  # a resumed run ends the same cases
        assert len(setup.driver.ran) == ran
    printed = [line for line in capsys.readouterr().err.splitlines() if "every case" not in line]
    assert "[24/40] counting: has enough after 3 rounds" in printed
    assert "[24/32] round 4 of at most 5: sonnets" in printed
    assert printed[-1] == "[32/32] comparing the answers"


async def test_the_run_and_its_report_agree_on_when_a_case_has_enough(tmp_path: Path) -> None:
    """By the rule itself, to which the warm-up is no round."""
    load = samples.load(rounds={"at_least": 3, "at_most": 6, "half_width": 0.3})
    setup = Setup(tmp_path, load=load)
    setup.base = golden(gap=0.02)
    async with setup:
        assert await setup.execute() == []
        summary = summarise(setup.config(), setup.records())
        assert summary.complete
        assert {
            comparison.verdict.finding for case in summary.cases for _, comparison in case.compared
        } == {Finding.FASTER}
        measured = Counter(r.case for r in setup.records() if r.round > 0)
        assert measured == {case.name: 2 * (case.cells[0].expected or 0) for case in summary.cases}
        ran = len(setup.driver.ran)
        assert await setup.execute() == []
        assert len(setup.driver.ran) == ran
