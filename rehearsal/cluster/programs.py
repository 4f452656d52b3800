"""A program of this machine in a container's place, started again as a kubelet would."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

from rehearsal.cluster.disk import Container, NotThere
from rehearsal.cluster.statuses import now
from rehearsal.process.processes import Process
from rehearsal.process.watch import Watch

BACK_OFF_SECONDS: Final = 1.0
"""Before a container is started again, twice as long each time. A kubelet begins with ten."""
_MOST_SECONDS: Final = 10.0
_GRACE_SECONDS: Final = 5.0
_PROBE_SECONDS: Final = 2.0
_BY_SIGNAL: Final = 128


@dataclass(frozen=True)
class Program:
    """What runs in a container's place."""

    command: Sequence[str]
    environment: Mapping[str, str]
    directory: Path | None = None
    url: str | None = None
    """Where it serves in place of the pod's port."""
    probe: Sequence[str] = ()
    """What answers in place of the command that its probe has, if that has one."""


class StandIns(Protocol):
    """Knows what runs in place of each container."""

    def program(self, container: Container) -> Program:
        """Raises NotThere if the container cannot start yet."""


class Playing:
    """One container and what runs in its place. Not for several threads at once."""

    def __init__(
        self,
        spec: Mapping[str, Any],
        policy: str,
        prepare: Callable[[], Program],
        logs: Path,
    ) -> None:
        """``policy``: Always, OnFailure or Never. ``logs`` takes a file for each start."""
        self.name: Final[str] = spec["name"]
        self._spec, self._policy, self._prepare, self._logs = spec, policy, prepare, logs
        self._program: Program | None = None
        self._process: Process | None = None
        self._watch: Watch | None = None
        self._ended: dict[str, Any] | None = None
        self._before: dict[str, Any] | None = None
        self._waiting = "PodInitializing"
        self._message = ""
        self._began = ""
        self._again_at = 0.0
        self._starts = 0
        self._ready = False

    @property
    def runs(self) -> bool:
        """Whether its program does."""
        return self._process is not None

    @property
    def ready(self) -> bool:
        """Whether it runs and its probe, if it has one, was answered last."""
        return self._ready

    @property
    def status(self) -> int | None:
        """With which it ended for good; None before."""
        return self._ended["exitCode"] if self._ended and not self._again else None

    def log(self, *, previous: bool = False) -> Path | None:
        """What its program says, or what that before it said."""
        number = self._starts - previous
        return self._logs / f"{number}.log" if number > 0 else None

    def advance(self) -> None:
        """Starts it if it is time to, and sees how it is."""
        if self._process is not None:
            self._look()
        elif self.status is None and time.monotonic() >= self._again_at:
            self._start()

    def end(self) -> None:
        """Ends its program and all that this started."""
        if self._process is None:
            return
        _signal(self._process, signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_GRACE_SECONDS)
        self._conclude(self._process)

    def reported(self) -> dict[str, Any]:
        """As a kubelet reports it."""
        its = {
            "name": self.name,
            "image": self._spec["image"],
            "imageID": self._spec["image"],
            "ready": self._ready,
            "started": self._process is not None,
            "restartCount": max(0, self._starts - 1),
            "state": self._state(),
        }
        return its | ({"lastState": {"terminated": self._before}} if self._before else {})

    @property
    def _again(self) -> bool:
        """Whether one that has ended is started again."""
        if self._ended is None or self._policy == "Never":
            return False
        return self._policy == "Always" or self._ended["exitCode"] != 0

    def _state(self) -> dict[str, Any]:
        if self._process is not None:
            return {"running": {"startedAt": self._began}}
        if self._ended is not None and not self._again:
            return {"terminated": self._ended}
        message = {"message": self._message} if self._message else {}
        return {"waiting": {"reason": self._waiting, **message}}

    def _start(self) -> None:
        try:
            self._program = self._prepare()
        except NotThere as missing:
            self._waiting, self._message = "CreateContainerConfigError", str(missing)
            self._again_at = time.monotonic() + BACK_OFF_SECONDS
            return
        self._before, self._ended = self._ended, None
        self._starts += 1
        self._logs.mkdir(parents=True, exist_ok=True)
        with (self._logs / f"{self._starts}.log").open("wb") as output:
            self._process = subprocess.Popen(
                self._program.command,
                env=dict(self._program.environment),
                cwd=self._program.directory,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._watch = Watch(-self._process.pid)
        self._began = now()

    def _look(self) -> None:
        assert self._process is not None
        if self._process.poll() is None:
            self._ready = self._probe()
        else:
            self._conclude(self._process)

    def _conclude(self, process: Process) -> None:
        _signal(process, signal.SIGKILL)
        code = process.wait()
        if self._watch is not None:
            self._watch.call_off()
        self._process, self._ready = None, False
        self._ended = {
            "exitCode": code if code >= 0 else _BY_SIGNAL - code,
            "reason": "Error" if code else "Completed",
            "startedAt": self._began,
            "finishedAt": now(),
        }
        if self._again:
            pause = min(_MOST_SECONDS, BACK_OFF_SECONDS * 2 ** (self._starts - 1))
            self._waiting = "CrashLoopBackOff"
            self._message = f"back-off {pause:.0f}s restarting failed container={self.name}"
            self._again_at = time.monotonic() + pause

    def _probe(self) -> bool:
        asked = self._spec.get("readinessProbe")
        if asked is None:
            return True
        assert self._program is not None
        if "exec" in asked:
            asking, environment = self._program.probe, dict(self._program.environment)
            return subprocess.run(asking, env=environment, check=False).returncode == 0
        url = self._program.url
        return url is not None and _answers(url + asked["httpGet"]["path"])


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=_PROBE_SECONDS) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def _signal(process: Process, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)
