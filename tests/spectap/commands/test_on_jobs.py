"""The commands that read runs, on runs of jobs: they work, or say in one line why not."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.spectap import generated_runs
from tests.spectap.commands.processes import Benchmark
from tests.spectap.offline.runs import merged


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return merged(tmp_path_factory.mktemp("jobs") / "run")


def test_a_report_that_is_none_of_its_is_named(tmp_path: Path, benchmark: Benchmark) -> None:
    run = merged(tmp_path / "run", demos={"Base": {"e2e_model": {"latency": 1}}})
    ended = benchmark("read", str(run))
    assert ended.status == 2
    assert ended.err.startswith(f"spectap: {run / 'inference_demo' / 'Base.json'}: cannot be read")
    assert ended.err.count("\n") == 1


def test_advice_is_refused_in_one_line(folder: Path, benchmark: Benchmark) -> None:
    ended = benchmark("advise", str(folder))
    assert (ended.status, ended.err) == (
        2,
        f"spectap: {folder}: its variants ran as jobs, whose modes no server knows, so there is "
        "nothing to serve\n",
    )


def test_two_runs_of_jobs_are_compared_and_never_one_with_a_run_of_services(
    folder: Path, tmp_path: Path, benchmark: Benchmark
) -> None:
    again = benchmark("compare", str(folder), str(merged(tmp_path / "again")))
    assert (again.status, again.err) == (0, "")
    configuration = generated_runs.config()
    served = generated_runs.write(
        tmp_path / "served", configuration, generated_runs.ledger(configuration)
    )
    for pair in ((folder, served), (served, folder)):
        ended = benchmark("compare", *map(str, pair))
        assert (ended.status, ended.err) == (
            2,
            f"spectap: the variants of {folder} ran as jobs and those of {served} were served: "
            "their figures are of different things\n",
        )


def test_a_run_of_jobs_is_merged_and_read_again(folder: Path, benchmark: Benchmark) -> None:
    before = {path: path.read_bytes() for path in folder.glob("*.jsonl")}
    assert benchmark("merge", str(folder)).out == "merged: 2 of 2 variants\n"
    assert {path: path.read_bytes() for path in folder.glob("*.jsonl")} == before
    assert "vanilla against Base" in benchmark("read", str(folder)).out
