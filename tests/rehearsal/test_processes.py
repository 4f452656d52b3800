"""Whatever ends a rehearsal, nothing that it started is left; and indexes start, end and are
retried as the Job controller does it."""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from rehearsal import RehearsalError
from rehearsal.indexes import Attempt, control
from rehearsal.processes import (
    Interrupted,
    Process,
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


LONG = "sleep 60"


def played(
    folder: Path, commands: Sequence[str], retries: int, at_once: int, *final: int
) -> list[tuple[int, str]]:
    """Each index and what became of its pod, which runs a shell command; one of LONG is killed."""
    live, events, most = set[Attempt](), list[tuple[int, str]](), 0

    @contextlib.contextmanager
    def start(attempt: Attempt) -> Iterator[Process]:
        live.add(attempt)
        command = ["sh", "-c", commands[attempt.index]]
        with running(command, os.environ, folder / f"{attempt.index}-{attempt.number}") as process:
            yield process
        live.remove(attempt)

    for event in control(len(commands), retries, at_once, start, 60, final):
        index, status = event.attempt.index, event.process.returncode
        most = max(most, len(live))
        if event.started:
            events.append((index, f"started {event.attempt.number}"))
        elif status is not None:
            assert event.attempt not in live, "told once the pod is gone"
            events.append((index, f"{status}{', retried' if event.retried else ''}"))
        elif commands[index] == LONG:
            event.process.kill()
    assert most == at_once
    return events


def test_an_index_that_fails_is_retried_alone_after_those_not_tried_and_given_up(
    tmp_path: Path,
) -> None:
    events = played(tmp_path, ["exit 0", "exit 3", "exit 0"], 1, 2)
    for index, ended in enumerate((["0"], ["3, retried", "started 2", "3"], ["0"])):
        assert [what for i, what in events if i == index] == ["started 1", *ended]
    # One after the other; some statuses are final.
    assert played(tmp_path, [LONG, "exit 69", "exit 0"], 1, 1, 69) == [
        *((0, "started 1"), (0, "-9, retried"), (1, "started 1"), (1, "69")),
        *((2, "started 1"), (2, "0"), (0, "started 2"), (0, "-9")),
    ]


def test_nothing_is_left_of_what_takes_too_long(tmp_path: Path) -> None:
    command = ["sh", "-c", "sleep 60 & wait"]
    events = control(1, 0, 1, lambda _: running(command, os.environ, tmp_path / "log"), 0)
    group = next(events).process.pid
    with pytest.raises(RehearsalError, match=r"^did not end within 0 s$"):
        next(event for event in events if event.process.returncode is not None)
    assert not left_in_group(group)
