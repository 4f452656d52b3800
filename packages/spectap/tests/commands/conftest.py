"""Runs that several commands read; none changes them."""

import dataclasses
import json
from pathlib import Path

import pytest

from benchmarks.sweeps import Sweep
from spectap.inputs import config as configuration
from tests import generated_runs

SWEEP = Sweep(
    "advised",
    draft_costs=(0.06,),
    acceptances={"structured": (0.9,), "open-ended": (0.4,)},
    rounds=4,
    tokens=200,
)
LOWER = {structure: share - 0.1 for structure, share in generated_runs.ACCEPTANCE.items()}


@pytest.fixture(scope="session")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run of a sweep."""
    folder = tmp_path_factory.mktemp("results") / "sweep-1"
    content = json.loads(configuration.dump(SWEEP.config()))
    return generated_runs.write(folder, content, map(dataclasses.asdict, SWEEP.records()))


@pytest.fixture(scope="session")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs of the same thing, and one whose drafts are accepted less often."""
    folder = tmp_path_factory.mktemp("runs")
    settings = generated_runs.config(cases=generated_runs.CASES[:1])
    for seed, name in enumerate(("old", "same", "less"), start=1):
        acceptance = LOWER if name == "less" else generated_runs.ACCEPTANCE
        lines = generated_runs.ledger(settings, seed, acceptance)
        generated_runs.write(folder / name, settings, lines)
    return folder
