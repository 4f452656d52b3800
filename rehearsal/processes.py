"""Child processes, which end with all their children when the code that started them ends, and
waiting for those that serve."""

import contextlib
import os
import random
import re
import signal
import socket
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import Final, TypeVar

START_SECONDS: Final = 300.0
"""How long a server may take to start."""

_LASTING: Final = range(20000, 32000)
"""Below what Linux (from 32768) and macOS (from 49152) give to clients."""
_UNTAKEN: Final = iter(random.sample(_LASTING, len(_LASTING)))
"""Each once: of two servers with one port the second ends, and the first answers for both."""

GRACE_SECONDS: Final = 15.0
_POLL_SECONDS: Final = 0.05

_ESCAPES: Final = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")

_KILL: Final = 'read _; kill -s KILL -- "$0"'
"""Kills a group when this process has ended, even by SIGKILL: the shell reads from a pipe that this
process alone holds open."""
SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

Process = subprocess.Popen[bytes]
T = TypeVar("T")

_held = 0
_pending: signal.Signals | None = None


class ProcessError(Exception):
    """A process did not start, failed, or took too long. One line."""


class Interrupted(KeyboardInterrupt):
    """A signal asks this process to end.

    It derives from KeyboardInterrupt, so that no ``except Exception`` swallows it, and pytest
    finishes its fixtures, whichever signal it was.
    """

    def __init__(self, by: signal.Signals) -> None:
        super().__init__(by.name)
        self.by = by


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """Inside it, each of ``SIGNALS`` raises Interrupted. For the main thread only."""
    before = {number: signal.signal(number, _on_signal) for number in SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def held() -> Iterator[None]:
    """Inside it, Interrupted is held back: a second Ctrl-C must not interrupt a clean-up."""
    global _held, _pending
    _held += 1
    try:
        yield
    finally:
        _held -= 1
        if not _held and _pending is not None:
            by, _pending = _pending, None
            raise Interrupted(by)


def _on_signal(number: int, _frame: FrameType | None) -> None:
    global _pending
    by = signal.Signals(number)
    if not _held:
        raise Interrupted(by)
    _pending = by


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
    watch: Process | None = None
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
            watch = subprocess.Popen(
                ["/bin/sh", "-c", _KILL, str(-process.pid)],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                # What is sent to this process's group, such as Ctrl-C, is not for it.
                start_new_session=True,
            )
        yield process
    finally:
        with held():
            if process is not None:
                _end(process, end_by)
            if watch is not None:
                watch.kill()
                watch.communicate()


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
        command, environment, log, errors_on_terminal=errors_on_terminal, end_by=end_by
    ) as process:
        try:
            status = process.wait(timeout)
        except subprocess.TimeoutExpired:
            raise ProcessError(f"did not end within {timeout:.0f} s; see {log}") from None
    if status < 0:
        raise ProcessError(f"was killed ({signal.Signals(-status).name})")
    if status:
        why = "for the reason above" if errors_on_terminal else f"{reason(text(log))}; see {log}"
        raise ProcessError(f"ended with status {status}: {why}")


def await_line(process: Process, log: Path, pattern: str, seconds: float) -> str:
    """The first line of ``log`` that matches ``pattern``. Raises ProcessError."""

    def line() -> str | None:
        return next((row for row in text(log).splitlines() if re.fullmatch(pattern, row)), None)

    return _awaited(line, "", process, log, seconds)


def await_health(
    name: str, process: Process, url: str, log: Path, seconds: float = START_SECONDS
) -> None:
    """Waits for ``/health`` beside ``/v1``. Raises ProcessError, at once if the process ends."""

    def healthy() -> bool | None:
        # Where the process has ended, whatever answers there is another one.
        with contextlib.suppress(OSError):
            if process.poll() is None:
                urllib.request.urlopen(f"{url.removesuffix('/v1')}/health", timeout=5).close()
                return True
        return None

    _awaited(healthy, f"the server for {name} ", process, log, seconds)


def _awaited(
    ready: Callable[[], T | None], name: str, process: Process, log: Path, seconds: float
) -> T:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        ended = process.poll() is not None
        if (value := ready()) is not None:
            return value
        if ended:
            why = f"{reason(text(log))}; see {log}"
            raise ProcessError(f"{name}ended with status {process.returncode}: {why}")
        time.sleep(_POLL_SECONDS)
    raise ProcessError(f"{name}did not start within {seconds:.0f} s; see {log}")


def text(log: Path) -> str:
    """The text of a log, without colours."""
    return _ESCAPES.sub("", log.read_text(encoding="utf-8", errors="replace"))


def reason(output: str) -> str:
    """The line that explains a failure best.

    It is the CDK CLI's verdict, which begins with a cross, or else the last line. The line in which
    the CLI reports that the app failed does not count, because the app has printed the reason.
    """
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    lines = [line for line in lines if "Subprocess exited" not in line]
    verdicts = [line for line in lines if line.startswith("❌")]
    return (verdicts or lines[-1:] or ["it printed nothing"])[0].removeprefix("❌").strip()


def _end(process: Process, by: signal.Signals) -> None:
    # The group is killed even if its leader has ended: its children may still run.
    for number in (by, signal.SIGKILL):
        # macOS reports EPERM for a group that holds only zombies.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(GRACE_SECONDS)


def lasting_port() -> int:
    """Returns a free port of loopback, another each time, that no client's connection is given.

    So a server can still take it in a minute, and again after an end. Raises OSError.
    """
    for port in _UNTAKEN:
        with contextlib.suppress(OSError), socket.socket() as probe:
            probe.bind(("127.0.0.1", port))
            return port
    raise OSError(f"no port from {_LASTING[0]} to {_LASTING[-1]} is free")
