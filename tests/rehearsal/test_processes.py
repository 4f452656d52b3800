"""Whatever ends a rehearsal, nothing that it started is left; and indexes start, end and are
retried as the Job controller does it."""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
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


class Pods:
    """What each index runs, a shell command; and what became of it."""

    def __init__(self, folder: Path, commands: Mapping[int, str]) -> None:
        self._folder, self._commands = folder, commands
        self.events: list[tuple[str, Attempt]] = []
        self.running: set[Attempt] = set()
        self.most = 0
        self.groups: list[int] = []

    @contextlib.contextmanager
    def start(self, attempt: Attempt) -> Iterator[Process]:
        self.running.add(attempt)
        self.most = max(self.most, len(self.running))
        command = self._commands.get(attempt.index, "exit 0")
        log = self._folder / f"{attempt.index}-{attempt.number}"
        try:
            with running(["sh", "-c", command], os.environ, log) as process:
                self.groups.append(process.pid)
                yield process
        finally:
            self.running.remove(attempt)

    def play(
        self, indexes: int, retries: int, at_once: int, *final: int, seconds: float = 60
    ) -> None:
        for event in control(indexes, retries, at_once, self.start, seconds, final):
            if event.started:
                self.events.append(("started", event.attempt))
            elif event.status is not None:
                assert event.attempt not in self.running, "told once the pod is gone"
                status = f"{event.status}{', retried' if event.retried else ''}"
                self.events.append((status, event.attempt))
            elif self._commands.get(event.attempt.index) == LONG:
                event.process.kill()

    def of(self, index: int) -> list[tuple[str, int]]:
        return [(event, attempt.number) for event, attempt in self.events if attempt.index == index]


def test_an_index_that_fails_is_retried_alone_and_given_up(tmp_path: Path) -> None:
    pods = Pods(tmp_path, {1: "exit 3"})
    pods.play(3, 1, 2)
    assert pods.most == 2
    assert pods.of(1) == [("started", 1), ("3, retried", 1), ("started", 2), ("3", 2)]
    assert pods.of(0) == pods.of(2) == [("started", 1), ("0", 1)]


def test_some_statuses_are_final_and_a_retry_waits_for_those_not_tried(tmp_path: Path) -> None:
    pods = Pods(tmp_path, {0: LONG, 1: "exit 69"})
    pods.play(3, 1, 1, 69)
    assert pods.of(0) == [("started", 1), ("-9, retried", 1), ("started", 2), ("-9", 2)]
    started = [attempt for event, attempt in pods.events if event == "started"]
    assert started == [Attempt(0), Attempt(1), Attempt(2), Attempt(0, 2)]
    assert pods.of(1) == [("started", 1), ("69", 1)]


def test_nothing_is_left_of_what_takes_too_long(tmp_path: Path) -> None:
    pods = Pods(tmp_path, {0: "sleep 60 & wait"})
    with pytest.raises(RehearsalError, match=r"^did not end within 0 s$"):
        pods.play(1, 0, 1, seconds=0)
    assert not pods.running
    (group,) = pods.groups
    assert not left_in_group(group)
