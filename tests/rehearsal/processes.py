"""Which processes are left. One that has ended counts as gone, whoever has yet to take note."""

import subprocess
import time
from typing import NamedTuple


class Entry(NamedTuple):
    pid: int
    parent: int
    group: int


def descendants(ancestor: int) -> set[int]:
    entries = _entries()
    processes = {ancestor}
    while more := {entry.pid for entry in entries if entry.parent in processes} - processes:
        processes |= more
    return processes - {ancestor}


def alive(processes: set[int]) -> set[int]:
    return processes & {entry.pid for entry in _entries()}


def in_group(group: int) -> set[int]:
    return {entry.pid for entry in _entries() if entry.group == group}


def left_in_group(group: int, seconds: float = 2.0) -> set[int]:
    """The processes of a group that are there after ``seconds``: a kill takes a moment."""
    deadline = time.monotonic() + seconds
    while (remaining := in_group(group)) and time.monotonic() < deadline:
        time.sleep(0.02)
    return remaining


def _entries() -> list[Entry]:
    command = ["ps", "-axo", "pid=,stat=,ppid=,pgid="]
    listing = subprocess.run(command, capture_output=True, text=True, check=True)
    rows = map(str.split, listing.stdout.splitlines())
    return [
        Entry(int(pid), int(parent), int(group))
        for pid, state, parent, group in rows
        if not state.startswith("Z")
    ]
