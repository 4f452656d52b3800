"""``python -m rehearsal [EXPERIMENT]``: the whole experiment on this machine.

Exit status: 0 all went well; 1 something did not, which the last line says; 128 + n ended by
signal n. No process stays in any case.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Final

from botocore.exceptions import BotoCoreError, ClientError

from experiment import ExperimentError
from rehearsal.errors import RehearsalError
from rehearsal.interruption import Interrupted, interruptible
from rehearsal.rehearse import STEPS, Layout, rehearse
from rehearsal.steps import Steps

ROOT: Final = Path(__file__).resolve().parents[1]
DEFAULT_EXPERIMENT: Final = "experiments/article.yaml"


def main() -> int:
    """Rehearses; returns the exit status."""
    parser = argparse.ArgumentParser(prog="rehearsal", description=__doc__)
    parser.add_argument("experiment", nargs="?", default=DEFAULT_EXPERIMENT)
    arguments = parser.parse_args()
    steps = Steps(STEPS)
    try:
        with interruptible():
            outcome = rehearse(arguments.experiment, Layout(ROOT), steps)
            print(outcome.summary(steps))
    except (RehearsalError, ExperimentError, BotoCoreError, ClientError, OSError) as error:
        where = f"{steps.current.title}: " if steps.current else ""
        print(f"rehearsal: {where}{' '.join(str(error).split())}", file=sys.stderr)
        return 1
    except Interrupted as interruption:
        print(f"rehearsal: ended by {interruption}", file=sys.stderr)
        return 128 + interruption.by
    return 0


if __name__ == "__main__":
    sys.exit(main())
