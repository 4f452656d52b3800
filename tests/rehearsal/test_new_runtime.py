"""EAGLE3 on vllm-neuron-1.x, as it is rehearsed: its counters of drafts agree with the ledger."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest
from ruamel.yaml import YAML

from spectap.report import results
from spectap.report.results import Results
from tests.rehearsal.test_sweep import checkout
from tests.synthesis import ROOT

FILE: Final = ROOT / "experiments" / "eagle3.yaml"
DRAFTS: Final = 3
SHORT: Final[dict[str, Any]] = {
    "load": [{"concurrency": 2}],
    "requests": 2,
    "rounds": 2,
    "mean_output_tokens": 60,
}


def short(folder: Path) -> Path:
    """The file, with as little load as a rehearsal can do with."""
    yaml = YAML()
    experiment = yaml.load(FILE)
    experiment["benchmark"] |= SHORT
    path = folder / FILE.name
    yaml.dump(experiment, path)
    return path


@pytest.fixture(scope="module")
def rehearsed(tmp_path_factory: pytest.TempPathFactory) -> Results:
    root = checkout(tmp_path_factory.mktemp("checkout"))
    done = subprocess.run(
        [sys.executable, "-m", "rehearsal", str(short(root))],
        cwd=root,
        capture_output=True,
        text=True,
    )
    print(done.stdout, done.stderr)
    assert done.returncode == 0, done.stderr
    folder = re.search(r"^Report: (.*)/report\.html$", done.stdout, re.MULTILINE)
    assert folder
    return results.read(root / folder[1])


def test_the_server_s_drafts_agree_with_the_ledger(rehearsed: Results) -> None:
    cases = {case.name for case in rehearsed.config.test_cases}
    assert {(one.case, one.variant) for one in rehearsed.checks} == {
        (case, variant) for case in cases for variant in ("Base", "Base-matched", "SD")
    }
    for check in rehearsed.checks:
        assert check.failures == ()
        names = ["tokens", "steps", *(["accepted drafts"] if check.variant == "SD" else [])]
        assert [figure.name for figure in check.figures] == names
        assert len(check.positions) == (DRAFTS if check.variant == "SD" else 0)


def test_a_step_yields_up_to_one_token_more_than_its_drafts(rehearsed: Results) -> None:
    steps = {
        variant: {
            tokens
            for record in rehearsed.records
            if record.variant == variant
            for _, tokens in record.chunks[1:]
        }
        for variant in ("Base", "SD")
    }
    assert steps["Base"] == {1}
    assert max(steps["SD"]) == DRAFTS + 1
