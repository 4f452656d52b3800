"""A sweep of six variants, as its Job's pods would run it: one is killed, one has no server."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from spectap.config import Config
from spectap.ledger import read_ledger
from spectap.record import Record
from spectap.report import results
from spectap.report.results import Results
from tests.synthesis import ROOT

FILE: Final = Path(__file__).with_name("sweep.yaml")
PROJECT: Final = (
    *("app.py", "cdk.json"),
    *("spectap", "charts", "deployment", "experiment", "rehearsal", "stacks"),
)
VARIANTS: Final = ("Base", "k3", "k5", "k7", "k11", "k15")
KILLED: Final = 2
BROKEN: Final = 4
COMPLETE: Final = tuple(name for index, name in enumerate(VARIANTS) if index != BROKEN)


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
        (own,) = (one for one in self.run.config.variants if one.name == variant)
        return read_ledger(self.run.folder / "variants" / own.folder / "ledger.jsonl")


def checkout(folder: Path) -> Path:
    """A copy of the project: the rehearsal leaves files in its own, and other tests do so, too."""
    for name in PROJECT:
        if (ROOT / name).is_file():
            shutil.copy(ROOT / name, folder)
        else:
            shutil.copytree(ROOT / name, folder / name)
    (folder / "node_modules").symlink_to(ROOT / "node_modules")
    return folder


@pytest.fixture(scope="module")
def rehearsed(tmp_path_factory: pytest.TempPathFactory) -> Rehearsed:
    root = checkout(tmp_path_factory.mktemp("checkout"))
    faults = ("--kill", str(KILLED), "--break", str(BROKEN))
    process = subprocess.Popen(
        [sys.executable, "-m", "rehearsal", str(FILE), *faults],
        cwd=root,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    said, shown = process.communicate()
    print(said, shown)
    folder = re.search(r"^Report: (.*)/report\.html$", said, re.MULTILINE)
    assert folder, shown
    run = results.read(root / folder[1])
    return Rehearsed(process.returncode, said, shown, run, root / ".cache" / "rehearsal")


def told(rehearsed: Rehearsed, index: int) -> list[str]:
    """What was shown of an index, line by line, without times and reasons."""
    begin = f"index {index}, {VARIANTS[index]}: "
    lines = [line.strip() for line in rehearsed.shown.splitlines()]
    own = [line.removeprefix(begin) for line in lines if line.startswith(begin)]
    return [re.sub(r"^complete.*", "complete", re.sub(r"^.*; ", "", line)) for line in own]


def test_the_rest_complete(rehearsed: Rehearsed) -> None:
    for index in range(len(VARIANTS)):
        if index not in (KILLED, BROKEN):
            assert told(rehearsed, index) == ["started", "complete"]
    assert [variant.name for variant in rehearsed.run.config.variants] == [*COMPLETE]


def test_the_killed_one_resumes(rehearsed: Rehearsed) -> None:
    """What the bucket had is kept, and only the rest is measured, in the folder of another pod."""
    assert told(rehearsed, KILLED) == [
        *("started", "will be retried"),
        *("started again, attempt 2", "complete"),
    ]
    assert "k5: killed (SIGKILL); will be retried" in rehearsed.shown
    turns = Counter(
        (record.case, record.round, record.attempt)
        for record in rehearsed.ledger(VARIANTS[KILLED])
        if record.round > 0 and record.succeeded
    )
    load = rehearsed.run.config.load
    whole = {turn for turn, count in turns.items() if count == load.points[0].requests}
    cases = {case.name for case in rehearsed.run.config.test_cases}
    assert {turn[:2] for turn in whole} == {
        (case, round) for case in cases for round in range(1, load.rounds.at_most + 1)
    }
    # The turn in which it died may have been measured again; those before it were not.
    assert len(turns) <= len(cases) * load.rounds.at_most + 1
    (before,) = (rehearsed.work / "pods" / f"{KILLED}-1").rglob("ledger.jsonl")
    kept = {record.request for record in read_ledger(before) if record.round > 0}
    assert kept & {record.request for record in rehearsed.run.records}


def test_the_broken_one_is_given_up_at_once(rehearsed: Rehearsed) -> None:
    """A server that never serves would not serve the next time."""
    assert told(rehearsed, BROKEN) == ["started", "failed for good"]


def test_one_report_names_the_missing_variant(rehearsed: Rehearsed) -> None:
    (note,) = [note for note in rehearsed.run.summary.notes if VARIANTS[BROKEN] in note]
    page = (rehearsed.run.folder / "report.html").read_text(encoding="utf-8")
    assert note in " ".join(page.split())
    assert note in " ".join(rehearsed.said.split())
    for case in rehearsed.run.summary.cases:
        assert [cell.variant for cell in case.cells] == [*COMPLETE]
        for cell in case.cells:
            assert (cell.errors, cell.requests) == (0, 8)


def test_it_ends_with_the_failure_in_one_line(rehearsed: Rehearsed) -> None:
    assert rehearsed.status == 1
    last = rehearsed.shown.splitlines()[-1]
    assert last.startswith("rehearsal: 1 failed for good: index 4, k11: ")
    assert "k11" in last
    assert "not serving after 10 s" in last
    assert "Traceback" not in rehearsed.shown
    assert "  index 4, k11: " in rehearsed.said


def test_every_difference_from_the_pods_is_in_a_file(rehearsed: Rehearsed) -> None:
    text = (rehearsed.run.folder / "stand-ins.txt").read_text(encoding="utf-8")
    assert f"/{rehearsed.run.folder.name}/stand-ins.txt\n" in rehearsed.said
    for difference in (
        "START_SECONDS: 10 in place of 2700",
        "fetch: left out",
        "faults: index 2 killed once",
        "faults: index 4 without a server",
        "variants.k15.endpoint: http://127.0.0.1:",
        f"RUN_ID: {rehearsed.run.folder.name} in place of six-",
    ):
        assert difference in text
        assert difference not in rehearsed.said


def test_each_variant_was_measured_by_itself_with_controls(rehearsed: Rehearsed) -> None:
    for variant in COMPLETE:
        ledger = rehearsed.ledger(variant)
        assert {record.variant for record in ledger} == {variant}
        assert len({record.attempt for record in ledger if record.round == -1}) >= 2
    told: dict[str, Any] = json.loads((rehearsed.run.folder / "sweep.json").read_bytes())
    assert Config.model_validate(told).apart
    assert len(told["variants"]) == len(VARIANTS)
