"""``python -m rehearsal.offline.pod FILE``: runs a pod's containers, as a kubelet would.

Those that begin it one after another, then the others at the same time, to the end of each. FILE is
``Plan.write``'s. Ends with the status of the first container that failed, in the order of the file,
and says on standard error which one that was and why: what follows it fails for its sake.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from rehearsal.process.processes import Process, reason, text

_BY_SIGNAL: Final = 128
"""Added to a signal's number, it is the status that a kubelet reports."""


@dataclass(frozen=True)
class Container:
    """A container as a process."""

    name: str
    command: Sequence[str]
    environment: Mapping[str, str]
    log: str
    """Where its output goes."""
    directory: str | None = None


@dataclass(frozen=True)
class Plan:
    """A pod."""

    begin: Sequence[Container]
    """One after another."""
    then: Sequence[Container]
    """At the same time."""

    def write(self, path: Path) -> None:
        """For the command."""
        path.write_text(json.dumps(asdict(self)), encoding="utf-8")

    @classmethod
    def read(cls, path: Path) -> Plan:
        """What ``write`` wrote."""
        told = json.loads(path.read_bytes())
        return cls(*([Container(**one) for one in told[name]] for name in ("begin", "then")))


def main(path: Path) -> int:
    """Runs the pod; returns the exit status."""
    plan = Plan.read(path)
    for container in plan.begin:
        if status := _start(container).wait():
            return _failed(container, status)
    started = [(container, _start(container)) for container in plan.then]
    ended = [(container, process.wait()) for container, process in started]
    return next((_failed(container, status) for container, status in ended if status), 0)


def _start(container: Container) -> Process:
    """In this process's own group, so that whoever kills the pod kills it all."""
    with Path(container.log).open("wb") as output:
        return subprocess.Popen(
            container.command,
            env=dict(container.environment),
            cwd=container.directory,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )


def _failed(container: Container, status: int) -> int:
    """Says why; returns the status as a kubelet has it."""
    status = status if status > 0 else _BY_SIGNAL - status
    why = reason(text(Path(container.log)))
    print(f"{container.name}: ended with {status}: {why}", file=sys.stderr, flush=True)
    return status


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
