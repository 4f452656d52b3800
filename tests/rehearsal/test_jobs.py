"""Three variants as jobs, as their Job's pods would run them: one is killed, one has no NxDI."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from rehearsal.offline.pods import RECORD
from spectap.config import Config
from spectap.ledger import read_ledger
from spectap.record import Record
from spectap.report import results
from spectap.report.results import Results
from tests.rehearsal.test_sweep import checkout
from tests.synthesis import ROOT

FILE: Final = Path(__file__).with_name("jobs.yaml")
VARIANTS: Final = ("Base", "k5", "k7")
KILLED: Final = 0
BROKEN: Final = 1
COMPLETE: Final = ("Base", "k7")


class Rehearsed(NamedTuple):
    """What the command left."""

    status: int
    said: str
    """On standard output."""
    shown: str
    """On standard error."""
    run: Results
    work: Path
    """Its files that are no results."""

    def ledger(self, variant: str) -> list[Record]:
        """What a variant's own folder has."""
        return read_ledger(self.own(variant) / "ledger.jsonl")

    def own(self, variant: str) -> Path:
        """A variant's own folder."""
        (one,) = (one for one in self.run.config.variants if one.name == variant)
        return self.run.folder / "variants" / one.folder


@pytest.fixture(scope="module")
def rehearsed(tmp_path_factory: pytest.TempPathFactory) -> Rehearsed:
    root = checkout(tmp_path_factory.mktemp("checkout"))
    faults = ("--kill", str(KILLED), "--break", str(BROKEN))
    done = subprocess.run(
        [sys.executable, "-m", "rehearsal", str(FILE), *faults],
        cwd=root,
        capture_output=True,
        text=True,
    )
    print(done.stdout, done.stderr)
    folder = re.search(r"^Report: (.*)/report\.html$", done.stdout, re.MULTILINE)
    assert folder, done.stderr
    run = results.read(root / folder[1])
    return Rehearsed(done.returncode, done.stdout, done.stderr, run, root / ".cache" / "rehearsal")


def told(rehearsed: Rehearsed, index: int) -> list[str]:
    """What was shown of an index, line by line, without times and reasons."""
    begin = f"index {index}, {VARIANTS[index]}: "
    lines = [line.strip() for line in rehearsed.shown.splitlines()]
    own = [line.removeprefix(begin) for line in lines if line.startswith(begin)]
    return [re.sub(r"^complete.*", "complete", re.sub(r"^.*; ", "", line)) for line in own]


def test_one_index_runs_at_a_time_and_the_killed_one_again(rehearsed: Rehearsed) -> None:
    assert told(rehearsed, 2) == ["started", "complete"]
    assert told(rehearsed, KILLED) == [
        *("started", "will be retried"),
        *("started again, attempt 2", "complete"),
    ]
    shown = re.findall(r"index (\d), \S+: (started|complete|.*failed|.*retried)", rehearsed.shown)
    assert [index for index, _ in shown] == ["0", "0", "1", "1", "2", "2", "0", "0"]


def test_an_image_without_nxdi_is_given_up_at_once(rehearsed: Rehearsed) -> None:
    assert told(rehearsed, BROKEN) == ["started", "failed for good"]
    assert rehearsed.status == 1
    last = rehearsed.shown.splitlines()[-1]
    assert last.startswith("rehearsal: 1 failed for good: index 1, k5: generate: ended with 69: ")
    assert "no inference_demo as we know it" in last
    assert "Traceback" not in rehearsed.shown


def test_the_ledger_has_the_steps_that_were_made(rehearsed: Rehearsed) -> None:
    """What the golden NxDI wrote down of itself, but for what an answer's length cuts off."""
    for variant in COMPLETE:
        index = VARIANTS.index(variant)
        made = [
            json.loads(line)
            for path in sorted((rehearsed.work / "pods").glob(f"{index}-*/{RECORD}"))
            for line in path.read_text().splitlines()
        ]
        for record in rehearsed.ledger(variant):
            observed = [tokens for _, tokens in record.chunks]
            assert record.output_tokens == sum(observed)
            assert any(
                observed[:-1] == steps[: len(observed) - 1]
                and observed[-1] <= steps[len(observed) - 1]
                for steps in made
                if len(steps) >= len(observed)
            )


def test_what_the_bucket_had_is_not_generated_again(rehearsed: Rehearsed) -> None:
    (before,) = (rehearsed.work / "pods" / f"{KILLED}-1").rglob("variants/*/ledger.jsonl")
    kept = {record.request for record in read_ledger(before) if record.round > 0}
    merged = {record.request for record in rehearsed.run.records}
    assert kept & merged
    first, again = (
        len((rehearsed.work / "pods" / f"{KILLED}-{n}" / RECORD).read_text().splitlines())
        for n in (1, 2)
    )
    (asked,) = (rehearsed.work / "pods" / f"{KILLED}-1").rglob("generate.jsonl")
    assert first + again < 2 * len(asked.read_text().splitlines())


def test_one_report_compares_what_is_complete(rehearsed: Rehearsed) -> None:
    assert [variant.name for variant in rehearsed.run.config.variants] == [*COMPLETE]
    (note,) = [note for note in rehearsed.run.summary.notes if VARIANTS[BROKEN] in note]
    page = (rehearsed.run.folder / "report.html").read_text(encoding="utf-8")
    assert note in " ".join(page.split())
    for case in rehearsed.run.summary.cases:
        base, k7 = case.cells
        assert (base.errors, k7.errors) == (0, 0)
        assert base.steps is not None
        assert k7.steps is not None
        assert base.steps.mean == 1 < k7.steps.mean <= 7


def test_inference_demo_s_own_report_is_kept_beside_it(rehearsed: Rehearsed) -> None:
    for variant in COMPLETE:
        own = json.loads((rehearsed.own(variant) / "inference_demo.json").read_bytes())
        assert own["e2e_model"]["throughput"] > 0


def test_every_difference_from_the_pods_is_in_a_file(rehearsed: Rehearsed) -> None:
    text = (rehearsed.run.folder / "stand-ins.txt").read_text(encoding="utf-8")
    assert f"/{rehearsed.run.folder.name}/stand-ins.txt\n" in rehearsed.said
    for difference in (
        "fetch: left out",
        "generate: NxDI's packages are golden ones",
        "faults: index 0 killed once",
        "faults: index 1 without a server, or without NxDI",
        "stand_in: a golden inference_demo at 10 times the article's speed",
        f"RUN_ID: {rehearsed.run.folder.name} in place of jobs-",
        "Load: none; a job generates one prompt after another",
    ):
        assert difference in text
        assert difference not in rehearsed.said


def test_nothing_was_served(rehearsed: Rehearsed) -> None:
    told: dict[str, Any] = json.loads((rehearsed.run.folder / "sweep.json").read_bytes())
    config = Config.model_validate(told)
    assert config.offline
    assert config.apart


def test_vllm_plays_no_jobs() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "rehearsal", "--vllm", str(FILE)],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert done.stderr.startswith("rehearsal: mode vanilla runs as a job, which no vLLM can play")
    assert done.stderr.count("\n") == 1
