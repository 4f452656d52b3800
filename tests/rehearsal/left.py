"""Which processes are left. One that has ended counts as gone, whoever has yet to take note."""

from __future__ import annotations

import contextlib
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple


class Entry(NamedTuple):
    """A process."""

    pid: int
    parent: int
    group: int


def descendants(ancestor: int) -> set[int]:
    """All processes below ``ancestor``."""
    entries = _entries()
    processes = {ancestor}
    while more := {entry.pid for entry in entries if entry.parent in processes} - processes:
        processes |= more
    return processes - {ancestor}


def alive(processes: set[int]) -> set[int]:
    """Those of ``processes`` that have not ended."""
    return processes & {entry.pid for entry in _entries()}


def in_group(group: int) -> set[int]:
    """The processes of a process group."""
    return {entry.pid for entry in _entries() if entry.group == group}


def left_in_group(group: int, seconds: float = 2.0) -> set[int]:
    """The processes of a group that are there after ``seconds``: a kill takes a moment."""
    deadline = time.monotonic() + seconds
    while (remaining := in_group(group)) and time.monotonic() < deadline:
        time.sleep(0.02)
    return remaining


def _entries() -> list[Entry]:
    rows = _rows_of_proc() if Path("/proc/self/stat").exists() else _rows_of_ps()
    return [
        Entry(int(pid), int(parent), int(group))
        for pid, state, parent, group in rows
        if not state.startswith("Z")
    ]


def _rows_of_proc() -> Iterator[list[str]]:
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            # "pid (name) state parent group ...", and a name may hold anything.
            pid, _, fields = stat.read_text().partition(" (")
            yield [pid, *fields.rpartition(") ")[2].split()[:3]]


def _rows_of_ps() -> Iterator[list[str]]:
    listing = subprocess.run(
        ["ps", "-axo", "pid=,stat=,ppid=,pgid="], capture_output=True, text=True, check=True
    )
    return (line.split() for line in listing.stdout.splitlines())
