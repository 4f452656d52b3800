"""One rehearsal with real vLLM, for all tests of this folder. ``make test-vllm`` runs them."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

import pytest

from benchmark import results
from benchmark.results import Results
from benchmark.summary import Case
from tests.synthesis import ROOT

EXPERIMENT = ROOT / "experiments" / "two-cores.yaml"
SECONDS = 1200


class Rehearsed(NamedTuple):
    """What the command left: its results, what it said, how long it took."""

    run: Results
    said: str
    seconds: float

    def cases(self, structure: str) -> list[Case]:
        return [case for case in self.run.summary.cases if case.structure == structure]


@pytest.fixture(scope="session")
def rehearsed() -> Rehearsed:
    before = _runs()
    start = time.monotonic()
    ended = subprocess.run(
        [sys.executable, "-m", "rehearsal", "--vllm", str(EXPERIMENT)],
        cwd=ROOT,
        env=os.environ
        | {"PATH": f"{ROOT}/.venv/bin:{ROOT}/node_modules/.bin:{os.environ['PATH']}"},
        stdout=subprocess.PIPE,
        text=True,
        timeout=SECONDS,
    )
    seconds = time.monotonic() - start
    assert ended.returncode == 0, ended.stdout
    print(ended.stdout)
    (folder,) = _runs() - before
    return Rehearsed(results.read(folder), ended.stdout, seconds)


def _runs() -> set[Path]:
    return set((ROOT / "results").glob("rehearsal-*"))
