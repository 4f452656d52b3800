"""The command: what it prints, how it ends, and that nothing is left."""

import fcntl
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from rehearsal.__main__ import main
from rehearsal.setting import Layout
from tests.rehearsal.processes import alive, descendants
from tests.synthesis import ROOT
from tests.vllm.endpoints import VLLM


def status_of(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> object:
    monkeypatch.setattr(sys, "argv", ["rehearsal", *arguments])
    try:
        return main()
    except SystemExit as end:
        return end.code


@pytest.mark.parametrize(
    ("arguments", "status", "line"),
    [
        ("experiments/nobody.yaml", 1, "experiments/nobody.yaml:"),
        ("experiments/article.yaml --break 1", 1, "--break 1: the experiment has no indexes"),
        ("experiments/article-sweep.yaml --kill 99", 1, "--kill 99: .* the indexes 0 to 8"),
    ],
)
def test_what_cannot_be_done_is_one_line(
    arguments: str,
    status: int,
    line: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert status_of(monkeypatch, *arguments.split()) == status
    printed = capsys.readouterr()
    assert printed.out == ""
    assert re.match(f"rehearsal: {line}", printed.err)
    assert printed.err.count("\n") == 1


def test_what_runs_as_a_job_has_no_vllm(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["rehearsal", "experiments/vanilla.yaml"])
    assert main(VLLM) == 1
    assert capsys.readouterr().err.startswith("rehearsal: mode vanilla runs as a job")


def test_an_interruption_leaves_nothing() -> None:
    # In the midst of a step that has processes of processes.
    process = subprocess.Popen(
        [sys.executable, "-m", "rehearsal"],
        cwd=ROOT,
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
    )
    assert process.stderr is not None
    with process, process.stderr:
        for line in process.stderr:
            if line.startswith("[2/"):
                break
        started: set[int] = set()
        while len(started) < 3 and process.poll() is None:
            started = descendants(process.pid)
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)  # nothing if it has ended: then its words say why
        printed = process.stderr.read()
    assert printed.startswith("rehearsal: ended by SIGINT; results/ has what was measured")
    assert process.returncode == 128 + signal.SIGINT
    assert alive(started) == set()


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
