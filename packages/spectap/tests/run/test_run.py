"""A run from end to end, with golden endpoints: what is measured, kept, and done only once."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any, Final, Self
from unittest.mock import Mock

import pytest

from spectap.analysis import crosscheck
from spectap.analysis.summarise import summarise
from spectap.analysis.verdicts import Finding
from spectap.endpoint import counters, greedy
from spectap.endpoint.counters import COUNTERS
from spectap.errors import RunError
from spectap.golden.schedule import Step
from spectap.golden.server import GoldenEndpoint
from spectap.inputs.config import Config
from spectap.inputs.load_points import Load
from spectap.load.driver import Driver
from spectap.loop_lag import Lag
from spectap.names import CONTROL, LEDGER, PROGRESS, Engine
from spectap.records.journal import Journal, read_json
from spectap.records.ledger import last_attempts, read_ledger
from spectap.records.record import Record
from spectap.run.folder import Shipper
from spectap.run.run import Run
from spectap.run.taps import Patience
from tests import samples, tapped
from tests.standins import QUICK, Bucket, InProcess, Publisher


def golden(gap: float = 0.001, **options: Any) -> GoldenEndpoint:
    return tapped.golden(1, 2, 3, 4, 1, 2, 3, 4, gap=gap, **options)


ONE_TURN: Final[dict[str, Any]] = {
    "load": samples.load(rounds=1),
    "test_cases": samples.settings()["test_cases"][:1],
}


class Setup:
    """Endpoints and a run's folder. ``windows`` are those of the variants beside Base and SD.

    Of an isolated run, Base alone is measured.
    """

    def __init__(self, folder: Path, windows: Sequence[int] = (), **changes: Any) -> None:
        self.base, self.speculative = golden(), golden()
        self.others = {f"k{window}": golden() for window in windows}
        self.folder = folder / "run-1"
        self.events: list[str] = []
        self.bucket = Bucket(self.folder, folder / "bucket", self.events)
        self.publisher = Publisher(self.events)
        self.driver = InProcess(None, folder)
        self._changes = changes

    @property
    def endpoints(self) -> dict[str, GoldenEndpoint]:
        return {"Base": self.base, "SD": self.speculative, **self.others}

    async def __aenter__(self) -> Self:
        for endpoint in self.endpoints.values():
            await endpoint.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        for endpoint in self.endpoints.values():
            await endpoint.stop()

    def config(self) -> Config:
        urls = {name: endpoint.url for name, endpoint in self.endpoints.items()}
        variants = samples.variants(**urls)[: 1 if "isolated" in self._changes else None]
        return samples.config(variants=variants, **self._changes)

    def run(self, patience: Patience = QUICK, relaunch: str | None = None) -> Run:
        return Run(
            self.config(),
            self.folder,
            driver=self.driver,
            shipper=Shipper(self.bucket.upload, self.publisher.publish),
            patience=patience,
            relaunch=relaunch,
        )

    async def execute(self) -> list[str]:
        return await self.run().execute()

    def records(self) -> list[Record]:
        return read_ledger(self.folder / LEDGER)

    def rounds(self) -> list[tuple[int, int]]:
        """Each turn's round and number of requests, as they follow each other in the ledger."""
        turns = groupby(self.records(), key=lambda r: (r.round, r.attempt, r.case))
        return [(round, len([*records])) for (round, *_), records in turns]

    def published(self) -> list[str]:
        return [event for event in self.events if event.startswith("publish")]


pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def _keeps_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Servers and load share the test's event loop, and with it all that delays it."""
    monkeypatch.setattr(Lag, "since", lambda self, mark: 0.0)


async def test_a_run_from_end_to_end(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It waits until all variants serve, runs each case in each round on all of them, and ships.

    One server counts as vLLM's V0 does, the others as its V1.
    """
    setup = Setup(tmp_path, windows=(3,))
    setup.base = golden(engine=Engine.V0)
    async with setup:
        setup.speculative.healthy = False
        running = asyncio.create_task(setup.execute())
        printed = ""
        async with asyncio.timeout(60):
            while "waiting for SD" not in printed:
                await asyncio.sleep(0.02)
                printed += capsys.readouterr().err
        assert setup.base.sent == []
        setup.speculative.healthy = True
        assert await running == []
        printed += capsys.readouterr().err
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
        path = setup.bucket.target / greedy.DIVERGENCE
        divergences = read_json(path, tuple[greedy.Divergence, ...])
        assert [(d.case, d.first) for d in divergences or ()] == [
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


def launches(records: Sequence[Record]) -> list[tuple[int, int]]:
    """Each round of the figures with the launch that it was measured in."""
    return sorted({(record.round, record.launch) for record in records if record.round > 0})


async def test_servers_are_launched_again_between_blocks_of_rounds(tmp_path: Path) -> None:
    """A launch that fails ends the run, and is tried again by the next."""
    load = samples.load(rounds=6, launches=3)
    async with Setup(tmp_path, **ONE_TURN | {"load": load}) as setup:
        failed = await setup.run(relaunch="exit 7").execute()
        assert failed == ["launch 2 of 3: 'exit 7' ended with status 7; 4 of 6 turns were not run"]
        noted = tmp_path / "launched"
        run = setup.run(relaunch=f"echo launched >> {noted}")
        assert await run.execute() == []
        assert (run.request, run.complete) == (None, True)
        assert noted.read_text().split() == ["launched"] * 2
        records = setup.records()
        assert launches(records) == [(1, 1), (2, 1), (3, 2), (4, 2), (5, 3), (6, 3)]
        warm_ups = sum(record.round == 0 for record in records)
        assert warm_ups == 4 * 2 * 2, "each run and each launch warms up"


async def test_without_a_command_somebody_is_asked_for_each_launch(tmp_path: Path) -> None:
    """A run that is continued knows whether it had asked."""
    load = samples.load(rounds=3, launches=3)
    async with Setup(tmp_path, **ONE_TURN | {"load": load}) as setup:
        for launch in (1, 2):
            run = setup.run()
            assert await run.execute() == []
            assert run.request == (
                f"launch {launch} of 3 is measured: restart the servers, then run the same command "
                "with RUN_ID=run-1"
            )
            assert launches(setup.records())[-1] == (launch, launch)
        run = setup.run()
        assert (await run.execute(), run.request) == ([], None)
        assert launches(setup.records())[-1] == (3, 3)

        # One that ended just before it asked has to ask.
        path = setup.folder / PROGRESS
        lines = path.read_text().splitlines(keepends=True)
        path.write_text("".join(line for line in lines if '"round":-2' not in line))
        path.write_text("".join(path.read_text().splitlines(keepends=True)[:1]))
        run = setup.run()
        assert await run.execute() == []
        assert run.request is not None
        assert run.request.startswith("launch 1 of 3 is measured")


async def test_rounds_are_spread_but_a_resumed_run_does_not_wait_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    load = samples.load(rounds=3, spread_minutes=2 * 0.4 / 60)
    async with Setup(tmp_path, **ONE_TURN | {"load": load}) as setup:
        assert await setup.execute() == []
        path = setup.folder / PROGRESS
        path.write_text("".join(path.read_text().splitlines(keepends=True)[:2]))
        assert await setup.execute() == []
    said = [line for line in capsys.readouterr().err.splitlines() if "rounds are spread" in line]
    assert [line.split("] ")[1][:15] for line in said] == ["round 2 begins ", "round 3 begins "]
    begins = [min(r.sent for r in setup.records() if r.round == number) for number in (1, 2, 3)]
    due = Load.model_validate(load).begins(setup.folder.name)
    gaps = [[after - before for before, after in pairwise(times)] for times in (begins, due)]
    assert all(gap >= at_least for gap, at_least in zip(*gaps, strict=True))
    assert due[-1] == pytest.approx(0.8)
    assert gaps[1][0] != pytest.approx(gaps[1][1], rel=0.001)  # no period divides them


async def test_a_driver_that_fails_ends_the_other_loads(tmp_path: Path) -> None:
    async with Setup(tmp_path, **ONE_TURN) as setup:
        setup.driver.fail.add(("counting", "SD"))
        failed = await setup.execute()
    assert failed == ["counting, round 1: SD: llmperf ended with status 1: out of memory"]


async def test_the_faster_side_stays_loaded_until_the_slower_one_ends(tmp_path: Path) -> None:
    """With the real driver: two in flight, but for moments."""
    setup = Setup(tmp_path, **ONE_TURN)
    setup.base, setup.speculative = golden(gap=0.1), golden(gap=0.01)
    async with setup:
        run = Run(setup.config(), setup.folder, driver=Driver(None, tmp_path), patience=QUICK)
        assert await run.execute() == []
    counted = [record for record in setup.records() if record.round == 1]
    assert Counter(record.variant for record in counted) == {"Base": 2, "SD": 2}
    begin, end = (
        max(record.sent + record.end for record in counted if record.variant == name)
        for name in ("SD", "Base")
    )
    filler = [r for r in setup.records() if (r.variant, r.round) == ("SD", 0)]
    in_flight = [min(r.sent + r.end, end) - max(r.sent, begin) for r in filler]
    assert sum(seconds for seconds in in_flight if seconds > 0) > 0.6 * 2 * (end - begin)
    assert max(record.sent for record in filler) < end + 5, "it ends long before its timeout"


async def test_a_server_that_answers_nothing_ends_the_turn_and_then_the_run(tmp_path: Path) -> None:
    setup = Setup(tmp_path, load=samples.load(rounds=4))
    setup.speculative = GoldenEndpoint(
        lambda prompt, number, length: [Step(0.001 if len(setup.speculative.sent) < 2 else 99, 1)]
    )
    async with setup:
        failed = await setup.run(Patience(stall=0.3)).execute()
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
    setup.speculative = GoldenEndpoint(dies)
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


@pytest.mark.parametrize("name", [LEDGER, COUNTERS, PROGRESS])
async def test_a_folder_with_a_broken_journal_is_refused(tmp_path: Path, name: str) -> None:
    async with Setup(tmp_path) as setup:
        setup.folder.mkdir()
        (setup.folder / name).write_text("{}\n", encoding="utf-8")
        with pytest.raises(RunError, match=rf"^[^\n]*{name}:1: \w+: Field required$"):
            setup.run()


async def test_the_run_and_its_report_agree_on_when_a_case_has_enough(tmp_path: Path) -> None:
    """By the rule itself, to which the warm-up is no round."""
    load = samples.load(rounds={"at_least": 3, "at_most": 6})
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


async def test_it_begins_and_ends_with_a_control(tmp_path: Path) -> None:
    async with Setup(tmp_path, isolated=True) as setup:
        run = setup.run()
        assert await run.execute() == []
        assert run.complete
        assert setup.rounds() == [(r, 2) for r in (0, CONTROL, 1, 1, 2, 2, CONTROL)]
        controls = [record for record in setup.records() if record.round == CONTROL]
        assert [(r.case, r.load, r.attempt) for r in controls] == [
            ("counting", "concurrency-2", attempt) for attempt in (1, 1, 2, 2)
        ]
        assert len(setup.published()) == 4
        assert not (setup.folder / greedy.DIVERGENCE).exists()


async def test_a_control_that_fails_twice_ends_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the last turn, or before the first: two at the end would not show what changed."""
    refused = "control load: Base: 0 of 2 requests succeeded: HTTP 429: Too many requests"
    busy = {"control", *(f"control-attempt-{number}" for number in (2, 4, 5))}
    send = InProcess.run

    async def run_or_refuse(driver: InProcess, **turn: Any) -> None:
        setup.base.refuses = turn["results"].name in busy
        await send(driver, **turn)

    monkeypatch.setattr(InProcess, "run", run_or_refuse)
    async with Setup(tmp_path, isolated=True) as setup:
        for failed, rounds in (
            (f"{refused}; 4 of 4 turns were not run", {0, CONTROL}),
            (refused, {0, CONTROL, 1, 2}),
        ):
            run = setup.run()
            assert await run.execute() == [failed]
            assert (run.complete, run.never_served) == (False, False)
            assert {round for round, _ in setup.rounds()} == rounds
        run = setup.run()
        assert (await run.execute(), run.complete) == ([], True)
