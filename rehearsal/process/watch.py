"""What ends processes when the one that started them is killed before it could."""

from __future__ import annotations

import subprocess
from typing import Final

_KILL: Final = 'read _; kill -s KILL -- "$0"'


class Watch:
    """Kills a process when this one has ended, even by SIGKILL; until it is called off.

    A shell reads from a pipe that this process alone holds open.
    """

    def __init__(self, target: int) -> None:
        """``target``: a process, or a group by its negative id, as kill(1) takes them."""
        self._shell = subprocess.Popen(
            ["/bin/sh", "-c", _KILL, str(target)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            # What is sent to this process's group, such as Ctrl-C, is not for it.
            start_new_session=True,
        )

    def call_off(self) -> None:
        """Returns when it no longer watches."""
        self._shell.kill()
        self._shell.communicate()
