"""Whatever ends a rehearsal, nothing that it started is left."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from rehearsal.processes import (
    Interrupted,
    ProcessError,
    await_health,
    await_line,
    held,
    interruptible,
    lasting_port,
    reason,
    run,
    running,
)
from tests.rehearsal.processes import in_group, left_in_group
from tests.synthesis import ROOT

FAMILY = """\
import subprocess, sys, time
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
print("ready", flush=True)
time.sleep(60)
"""


def python(program: str) -> list[str]:
    return [sys.executable, "-c", program]


def test_children_end_though_their_parent_has_ended_before(tmp_path: Path) -> None:
    """Even if they ignore the signal that asks them to."""
    ignoring = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    program = ignoring + FAMILY.replace("time.sleep(60)\n", "") + "sys.exit(0)"
    with running(python(program), os.environ, tmp_path / "log") as process:
        process.wait(10)
        assert in_group(process.pid)
    assert not left_in_group(process.pid)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_what_runs(tmp_path: Path, number: signal.Signals) -> None:
    log = tmp_path / "log"
    groups = []

    def be_interrupted() -> None:
        with running(python(FAMILY), os.environ, log) as process:
            groups.append(process.pid)
            await_line(process, log, "ready", 10)
            os.kill(os.getpid(), number)
            process.wait(10)

    with interruptible(), pytest.raises(Interrupted) as caught:
        be_interrupted()
    assert caught.value.by is number
    assert not left_in_group(groups[0])


KILLED = """\
import os, pathlib, signal, sys
from rehearsal.processes import await_line, running
log = pathlib.Path(sys.argv[1])
with running([sys.executable, "-c", sys.argv[2]], os.environ, log) as process:
    await_line(process, log, "ready", 10)
    print(process.pid, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_kill_leaves_nothing(tmp_path: Path) -> None:
    killed = subprocess.run(
        [*python(KILLED), str(tmp_path / "log"), FAMILY],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    assert killed.returncode == -signal.SIGKILL
    assert not left_in_group(int(killed.stdout), seconds=10)


def test_a_second_signal_does_not_stop_the_stopping() -> None:
    steps = []

    def stop() -> None:
        with held():
            os.kill(os.getpid(), signal.SIGINT)
            os.kill(os.getpid(), signal.SIGINT)
            steps.append("done")

    with interruptible(), pytest.raises(Interrupted):
        stop()
    assert steps == ["done"]


def test_a_failure_is_one_line(tmp_path: Path) -> None:
    for program, seconds, message in (
        ("echo first; echo the reason; exit 3", 10, "ended with status 3: the reason; see .*log"),
        ("kill -9 $$", 10, r"was killed \(SIGKILL\)"),
        ("sleep 60", 0, "did not end within 0 s; see .*log"),
    ):
        with pytest.raises(ProcessError, match=f"^{message}$"):
            run(["sh", "-c", program], os.environ, tmp_path / "log", seconds, end_by=signal.SIGTERM)


def test_a_server_that_ends_instead_of_starting(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with running(["sh", "-c", "echo no port; exit 1"], os.environ, log) as process:
        with pytest.raises(ProcessError, match="ended with status 1: no port"):
            await_line(process, log, "ready", 10)
        with pytest.raises(ProcessError, match="server for SD ended with status 1: no port; see"):
            await_health("SD", process, "http://127.0.0.1:1", log)


def test_no_two_servers_get_one_port() -> None:
    assert len({lasting_port() for _ in range(500)}) == 500


def test_the_line_that_says_best_what_went_wrong() -> None:
    for output, expected in (
        ("", "it printed nothing"),
        ("one\ntwo\n\n", "two"),
        ("\n ❌  article-model-store failed: no bucket\n\nat Deployer\n", "article-model-store"),
        ("mine.yaml:6: name: is required\nSubprocess exited with error 1\n", "mine.yaml:6: name"),
    ):
        assert reason(output).startswith(expected)
