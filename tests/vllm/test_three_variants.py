"""Three variants through a whole rehearsal, with golden endpoints.

It stands in this tier for the time it takes: a minute and a half.
"""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from experiment import load
from experiment.variants import variants
from rehearsal.golden.performance import scheduled_time
from spectap.report import results
from tests.synthesis import ROOT

FILE = "experiments/two-windows.yaml"


def test_each_variant_has_a_row_in_every_case_held_against_the_baseline() -> None:
    before = {*(ROOT / "results").glob("rehearsal-*")}
    ended = subprocess.run(
        [sys.executable, "-m", "rehearsal", FILE],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout
    (folder,) = {*(ROOT / "results").glob("rehearsal-*")} - before
    experiment = load(ROOT / FILE)
    base, *windows = variants(experiment)
    concurrency = experiment.benchmark.points[0].concurrency
    assert concurrency is not None
    cases = results.read(folder).summary.cases
    for case, asked in zip(cases, experiment.benchmark.test_cases, strict=True):
        assert asked.structure is not None
        assert [cell.variant for cell in case.cells] == ["Base", "k3", "k7"]
        for (_, comparison), variant in zip(case.compared, windows, strict=True):
            assert comparison.baseline == base.name
            found = comparison.by_time_per_output_token
            assert found is not None
            times = (scheduled_time(one, asked.structure, concurrency) for one in (base, variant))
            assert found.point == pytest.approx(next(times) / next(times), rel=0.15), case.name
    rows = [line for line in ended.stdout.splitlines() if re.search(r" \d+/16( |$)", line)]
    assert len(rows) == 3 * len(cases)
