"""``python -m tests.control_plane``: builds the programs before the tests need them.

Building takes minutes, in which go prints nothing. Exit status: 0 if they are ready, or if there is
nothing to build them with (the tests then say so); 1 if they cannot be made ready; 128 + n if
signal n ended the command.
"""

import contextlib
import os
import sys

from rehearsal.processes import Interrupted, ProcessError, interruptible
from tests.control_plane.programs import ControlPlaneError, NoPrograms, programs


def main() -> int:
    try:
        with interruptible(), contextlib.suppress(NoPrograms):
            programs(os.environ)
    except (ControlPlaneError, ProcessError, OSError) as error:
        print(f"control plane: {error}", file=sys.stderr)
        return 1
    except Interrupted as interruption:
        print(f"control plane: ended by {interruption}", file=sys.stderr)
        return 128 + interruption.by
    return 0


if __name__ == "__main__":
    sys.exit(main())
