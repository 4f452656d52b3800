"""``python -m control_plane``: has the programs ready, before tests start them.

Building them takes a while, and go says nothing meanwhile. Exit status: 0 they are ready, or there
is nothing to build them with, which the tests say; 1 they cannot be; 128 + n ended by signal n.
"""

from __future__ import annotations

import os
import sys

from control_plane.choice import prepare
from control_plane.programs import NoPrograms
from rehearsal.errors import RehearsalError
from rehearsal.process.interruption import Interrupted, interruptible


def main() -> int:
    """Builds if it must; returns the exit status."""
    try:
        with interruptible():
            prepare(os.environ)
    except NoPrograms:
        return 0
    except (RehearsalError, OSError) as error:
        print(f"control plane: {error}", file=sys.stderr)
        return 1
    except Interrupted as interruption:
        print(f"control plane: ended by {interruption}", file=sys.stderr)
        return 128 + interruption.by
    return 0


if __name__ == "__main__":
    sys.exit(main())
