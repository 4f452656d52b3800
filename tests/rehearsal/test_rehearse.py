"""The command: what it prints, how it ends, and that nothing is left."""

import fcntl
import os
import signal
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from rehearsal.__main__ import main
from rehearsal.processes import running
from rehearsal.setting import Layout
from tests.rehearsal.processes import left_in_group
from tests.vllm.endpoints import VLLM


def status_of(monkeypatch: pytest.MonkeyPatch, arguments: str = "") -> int:
    monkeypatch.setattr(sys, "argv", ["rehearsal", *arguments.split()])
    return main()


def test_what_cannot_be_done_is_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert status_of(monkeypatch, "experiments/nobody.yaml") == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("rehearsal: experiments/nobody.yaml:")
    assert printed.err.count("\n") == 1


def test_what_runs_as_a_job_has_no_vllm(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["rehearsal", "experiments/vanilla.yaml"])
    assert main(VLLM) == 1
    assert capsys.readouterr().err.startswith("rehearsal: mode vanilla runs as a job")


def test_an_interruption_is_one_line_and_leaves_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the midst of a step that waits for the process of another."""
    groups = list[int]()

    def synthesise(_: str, layout: Layout, environment: Mapping[str, str]) -> None:
        with running(["sh", "-c", "sleep 60 & wait"], environment, tmp_path / "log") as process:
            groups.append(process.pid)
            os.kill(os.getpid(), signal.SIGINT)
            process.wait()

    monkeypatch.setattr("rehearsal.__main__.ROOT", tmp_path)
    monkeypatch.setattr("rehearsal.rehearse._synthesise", synthesise)
    assert status_of(monkeypatch) == 128 + signal.SIGINT
    *_, line = capsys.readouterr().err.splitlines()
    assert line.startswith("rehearsal: ended by SIGINT; results/ has what was measured")
    assert not left_in_group(*groups)


def test_a_second_rehearsal_in_a_checkout_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rehearsal.__main__.ROOT", tmp_path)
    path = Layout(tmp_path).work / "lock"
    path.parent.mkdir(parents=True)
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert status_of(monkeypatch) == 1
    assert capsys.readouterr().err == f"rehearsal: another rehearsal is running in {tmp_path}\n"
