"""Three variants as jobs: their pods collect what inference_demo would leave; one has nothing."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from tests.rehearsal.test_sweep import checkout
from tests.synthesis import ROOT

FILE: Final = Path(__file__).with_name("jobs.yaml")
BROKEN: Final = 1


class Rehearsed(NamedTuple):
    """What the command left."""

    status: int
    out: str
    err: str
    folder: Path


def rehearse(*options: str, root: Path = ROOT) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "rehearsal", str(FILE), *options],
        cwd=root,
        capture_output=True,
        text=True,
    )


@pytest.fixture(scope="module")
def rehearsed(tmp_path_factory: pytest.TempPathFactory) -> Rehearsed:
    root = checkout(tmp_path_factory.mktemp("checkout"))
    done = rehearse("--break", str(BROKEN), root=root)
    report = re.search(r"^Report: (.*)/report\.html$", done.stdout, re.MULTILINE)
    assert report, done.stderr
    return Rehearsed(done.returncode, done.stdout, done.stderr, root / report[1])


def test_one_index_runs_at_a_time_and_the_one_without_output_again(rehearsed: Rehearsed) -> None:
    shown = re.findall(
        r"^ +index (\d), \S+: (?:started|complete|.*failed|.*retried)", rehearsed.err, re.M
    )
    assert shown == [*"001122", *"1111"]
    assert rehearsed.status == 1
    last = rehearsed.err.splitlines()[-1]
    assert last.startswith("rehearsal: 1 failed for good: index 1, k5: ")
    assert "inference_demo.json: cannot be read" in last


def test_one_report_has_what_is_complete(rehearsed: Rehearsed) -> None:
    page = (rehearsed.folder / "report.html").read_text(encoding="utf-8")
    assert "vanilla, window 7" in page
    assert "vanilla, window 5" not in page
    assert "k5" in page  # it says that it is missing
    for variant, recorded in (("Base", "baseline"), ("k7", "vanilla")):
        report = json.loads((rehearsed.folder / "inference_demo" / f"{variant}.json").read_bytes())
        path = ROOT / "rehearsal" / "offline" / "recorded" / f"{recorded}.json"
        assert report == json.loads(path.read_bytes())


def test_every_difference_from_the_pods_is_in_a_file(rehearsed: Rehearsed) -> None:
    text = (rehearsed.folder / "stand-ins.txt").read_text(encoding="utf-8")
    for difference in (
        "fetch: left out",
        "generate: an output of inference_demo that no device made",
        "faults: index 1 without a server, or without output",
        f"RUN_ID: {rehearsed.folder.name} in place of jobs-",
    ):
        assert difference in text
        assert difference not in rehearsed.out


@pytest.mark.parametrize("option", ["--vllm", "--kill=0"])
def test_what_no_job_can_play_is_refused(option: str, tmp_path: Path) -> None:
    done = rehearse(option, root=checkout(tmp_path))
    assert done.returncode == 1
    assert "rehearsal: " in done.stderr.splitlines()[-1]
