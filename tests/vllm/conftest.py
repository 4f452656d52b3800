"""Whole rehearsals, most of them with real vLLM. ``make test-vllm`` runs them."""

import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from rehearsal.processes import interruptible
from spectap.analysis.summary import Case
from spectap.report import results
from spectap.report.results import Results
from tests.synthesis import ROOT

EXPERIMENT = ROOT / "experiments" / "two-cores.yaml"
SECONDS = 1800


class Rehearsed(NamedTuple):
    run: Results

    @property
    def stand_ins(self) -> str:
        return (self.run.folder / "stand-ins.txt").read_text(encoding="utf-8")

    def cases(self, structure: str) -> list[Case]:
        return [case for case in self.run.summary.cases if case.structure == structure]


@pytest.fixture(scope="session")
def rehearsed() -> Rehearsed:
    return rehearse(EXPERIMENT)


def rehearse(experiment: Path, *, vllm: bool = True) -> Rehearsed:
    before = _runs()
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.vllm" if vllm else "rehearsal", str(experiment)],
        cwd=ROOT,
        env=os.environ
        | {"PATH": f"{ROOT}/.venv/bin:{ROOT}/node_modules/.bin:{os.environ['PATH']}"},
        stdout=subprocess.PIPE,
        text=True,
    )
    with interruptible():
        try:
            output, _ = process.communicate(timeout=SECONDS)
        except BaseException:
            process.terminate()  # and not kill: it has servers to end
            process.wait()
            raise
    assert process.returncode == 0, output
    print(output)
    (folder,) = _runs() - before
    return Rehearsed(results.read(folder))


def _runs() -> set[Path]:
    return set((ROOT / "results").glob("rehearsal-*"))
