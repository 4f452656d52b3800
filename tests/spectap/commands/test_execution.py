"""What ``run`` and ``measure`` have in common, and what is only a pod's."""

from __future__ import annotations

import json
import os
import signal
import threading
from pathlib import Path
from unittest.mock import create_autospec

import pytest

from spectap.aws import bucket, calls
from spectap.commands import execution, recorded
from spectap.commands.execution import Ended, Pause
from spectap.run.run import Run
from spectap.run.taps import Patience
from tests.spectap import parts, samples
from tests.spectap.commands.processes import Benchmark, started


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["report", "no-such-run"],
            "spectap report: argument RUN_DIR: 'no-such-run': there is no such file or folder, "
            "nor one in results/",
        ),
        (["report", "docs"], "spectap: docs: is not the folder of a run: it has no config.json"),
        (["run"], "spectap: none.json: cannot be read: No such file or directory"),
        (["merge", "none"], "spectap: none: there is no such folder"),
        (
            ["merge", "docs"],
            "spectap: docs: is not the folder of a sweep or of jobs: it has no sweep.json",
        ),
        (["tap"], "spectap tap: the following arguments are required: --upstream, --ledger"),
        ([], "spectap: the following arguments are required: command"),
    ],
)
def test_what_is_expected_to_fail_fails_in_one_line(
    benchmark: Benchmark, arguments: list[str], message: str
) -> None:
    ended = benchmark(*arguments, BENCHMARK_CONFIG="none.json")
    assert ended.status == 2
    assert ended.err.removesuffix(" (--help lists the options)\n").rstrip() == message


@pytest.mark.parametrize("failures", [[], ["counting, round 1: all requests failed"]])
def test_a_run_ends_the_nodes_once_all_is_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failures: list[str]
) -> None:
    stopped: list[str] = []
    measured = execution.Measured(create_autospec(Run), failures, None, None)
    monkeypatch.setattr(execution, "measure", lambda *_, **__: measured)
    monkeypatch.setattr(recorded, "draw", lambda folder: None)
    results = create_autospec(bucket.Bucket)
    results.return_value.fetch_evaluation.return_value = None
    monkeypatch.setattr(bucket, "Bucket", results)
    monkeypatch.setattr(calls, "start_stopper", lambda arn, *_: stopped.append(arn))
    config = samples.config(stopper="arn:stop")
    status = execution.execute(config, tmp_path, Patience(), files=tmp_path)
    assert (status, stopped) == ((1, []) if failures else (0, ["arn:stop"]))


def test_sigterm_ends_a_run_and_keeps_what_there_is(tmp_path: Path) -> None:
    """A pod that is deleted: its endpoints never served, it waits, and is told to end."""
    path = tmp_path / "config.json"
    path.write_text(json.dumps(samples.settings(bucket=None, region=None)), encoding="utf-8")
    environment = {"BENCHMARK_CONFIG": str(path), "RESULTS_DIR": str(tmp_path), "RUN_ID": "run-1"}
    with started("run", environment=os.environ | environment) as process:
        assert process.stderr is not None
        assert "waiting for Base (http://127.0.0.1:1/v1): " in process.stderr.readline()
        process.terminate()
        out, err = process.communicate(timeout=20)
    assert process.returncode == 128 + signal.SIGTERM
    folder = tmp_path / "run-1"
    assert out == f"spectap: ended by SIGTERM; what was measured is kept in {folder}\n"
    assert (folder / "config.json").exists()
    # A rehearsal shows standard error on the terminal, and says itself that it is ended.
    assert "ended by" not in err


def test_a_signal_ends_a_thread_s_pause(capsys: pytest.CaptureFixture[str]) -> None:
    pause = Pause()
    threading.Timer(0.2, pause.ended.set).start()
    with pytest.raises(Ended):
        pause(300)
    assert capsys.readouterr().err == "AWS does not answer; trying again in 300 s\n"


def test_a_merged_folder_is_a_run(tmp_path: Path, benchmark: Benchmark) -> None:
    folder = parts.write(tmp_path / "sweep-1", complete=["Base", "k7", "k7-b8"])
    ended = benchmark("merge", str(folder))
    assert (ended.status, ended.err) == (0, "")
    assert ended.out.splitlines()[0] == "merged: 2 of 4 variants"
    assert ended.out.count(" is not in this run, because ") == 2
    assert "k7 against Base" in benchmark("read", str(folder)).out
    (folder / "variants" / "Base" / "_COMPLETE").unlink()
    assert benchmark("merge", str(folder)).status == 1
