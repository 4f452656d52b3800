"""Processes that end, together with their children, when the code that started them ends."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from rehearsal.process.errors import ProcessError
from rehearsal.process.interruption import held
from rehearsal.process.watch import Watch

GRACE_SECONDS: Final = 15.0
_POLL_SECONDS: Final = 0.05

_ESCAPES: Final = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")

Process = subprocess.Popen[bytes]


@contextlib.contextmanager
def running(
    command: Sequence[str],
    environment: Mapping[str, str],
    log: Path,
    *,
    errors_on_terminal: bool = False,
    end_by: signal.Signals = signal.SIGTERM,
) -> Iterator[Process]:
    """Runs ``command``. On exit, the process and its whole group are gone; so they are, at once,
    when this process is killed.

    ``log`` takes its output; ``errors_on_terminal`` leaves standard error to the terminal.
    On exit it gets the signal ``end_by``, and is killed if it still runs ``GRACE_SECONDS`` later.
    """
    process: Process | None = None
    watch: Watch | None = None
    log.parent.mkdir(parents=True, exist_ok=True)
    try:
        with held(), log.open("wb") as output:
            process = subprocess.Popen(
                command,
                env=dict(environment),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=None if errors_on_terminal else subprocess.STDOUT,
                # A session of its own. So it can be ended with everything it starts, and Ctrl-C
                # does not reach it directly but through here, in the right order.
                start_new_session=True,
            )
            watch = Watch(-process.pid)
        yield process
    finally:
        with held():
            if process is not None:
                _end(process, end_by)
            if watch is not None:
                watch.call_off()


def run(
    command: Sequence[str],
    environment: Mapping[str, str],
    log: Path,
    timeout: float,
    *,
    errors_on_terminal: bool = False,
    end_by: signal.Signals = signal.SIGINT,
) -> None:
    """Runs ``command`` and waits until it ends. Raises ProcessError."""
    # SIGINT, as from a terminal: the wheel starts node from a script that waits for node on this
    # signal only. After another signal, the lock of the CDK CLI can outlive the script.
    with running(
        command,
        environment,
        log,
        errors_on_terminal=errors_on_terminal,
        end_by=end_by,
    ) as process:
        try:
            status = process.wait(timeout)
        except subprocess.TimeoutExpired:
            raise ProcessError(f"did not end within {timeout:.0f} s; see {log}") from None
    if status != 0:
        raise ProcessError(f"ended with status {status}: {reason(text(log))}; see {log}")


def await_line(process: Process, log: Path, pattern: str, seconds: float) -> str:
    """The first line of ``log`` that matches ``pattern``. Raises ProcessError."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        ended = process.poll() is not None
        for line in text(log).splitlines():
            if re.fullmatch(pattern, line):
                return line
        if ended:
            raise ProcessError(f"ended with status {process.returncode}: {reason(text(log))}")
        time.sleep(_POLL_SECONDS)
    raise ProcessError(f"did not start within {seconds:.0f} s; see {log}")


def text(log: Path) -> str:
    """The text of a log, without colours."""
    return _ESCAPES.sub("", log.read_text(encoding="utf-8", errors="replace"))


def reason(said: str) -> str:
    """The line that explains a failure best.

    It is the CDK CLI's verdict, which begins with a cross, or else the last line. The line in which
    the CLI reports that the app failed does not count, because the app has printed the reason.
    """
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    lines = [line for line in lines if "Subprocess exited" not in line]
    verdicts = [line for line in lines if line.startswith("❌")]
    return (verdicts or lines[-1:] or ["it printed nothing"])[0].removeprefix("❌").strip()


def _end(process: Process, by: signal.Signals) -> None:
    _signal(process, by)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(GRACE_SECONDS)
    # The group, even if its leader has ended: its children may still run.
    _signal(process, signal.SIGKILL)
    process.wait()


def _signal(process: Process, number: signal.Signals) -> None:
    # macOS reports EPERM for a group that holds only zombies.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)
