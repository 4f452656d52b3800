"""Keeps a server to one core, so that all servers of a rehearsal compute on the same one.

That holds for what answers requests, too. On another core it may have to wait for longer than a
step takes, and vLLM then sends the tokens of two steps at once: seen beside other work, in 2 of 144
steps.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence

from rehearsal.process.processes import Process


def from_its_start(command: Sequence[str], core: int) -> tuple[str, ...]:
    """``command``, kept to ``core`` from its start."""
    return ("taskset", "--cpu-list", str(core), *command)


def from_now_on(process: Process, core: int) -> None:
    """Keeps all of the process's group to ``core``. Until now it could start on all of them."""
    for thread in _threads(process.pid):
        with contextlib.suppress(ProcessLookupError):
            os.sched_setaffinity(thread, {core})


def _threads(group: int) -> Iterator[int]:
    for process in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(ProcessLookupError, FileNotFoundError):
            if os.getpgid(int(process)) == group:
                yield from map(int, os.listdir(f"/proc/{process}/task"))
