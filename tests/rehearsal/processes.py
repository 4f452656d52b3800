"""Which processes are left. One that has ended counts as gone, whoever has yet to take note."""

import subprocess
import time


def in_group(group: int) -> set[int]:
    command = ["ps", "-axo", "pid=,stat=,pgid="]
    listing = subprocess.run(command, capture_output=True, text=True, check=True)
    rows = map(str.split, listing.stdout.splitlines())
    return {int(pid) for pid, state, of in rows if int(of) == group and state[0] != "Z"}


def left_in_group(group: int, seconds: float = 2.0) -> set[int]:
    """The processes of a group that are there after ``seconds``: a kill takes a moment."""
    deadline = time.monotonic() + seconds
    while (remaining := in_group(group)) and time.monotonic() < deadline:
        time.sleep(0.02)
    return remaining
