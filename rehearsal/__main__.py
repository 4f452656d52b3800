"""``python -m rehearsal [EXPERIMENT]``: the whole experiment on this machine.

Exit status: 0 on success; 1 on a failure, which the last lines explain (if it is that of a sweep's
index, after the report of the others); 2 for wrong arguments; 128 + n if signal n ended it. No
process is left behind.
"""

import argparse
import sys
from pathlib import Path
from typing import Final

from botocore.exceptions import BotoCoreError, ClientError

from experiment import DEFAULT_FILE, ExperimentError
from operations.console import Console
from rehearsal import RehearsalError
from rehearsal.endpoints import GOLDEN
from rehearsal.processes import Interrupted, ProcessError, interruptible
from rehearsal.rehearse import STAGES, rehearse
from rehearsal.setting import Endpoints, Layout

ROOT: Final = Path(__file__).resolve().parents[1]


def main(endpoints: Endpoints = GOLDEN) -> int:
    """Rehearses with stand-ins for the vLLM services; returns the exit status."""
    parser = argparse.ArgumentParser(prog="rehearsal", description=__doc__)
    parser.add_argument("experiment", nargs="?", default=DEFAULT_FILE)
    arguments = parser.parse_args()
    console = Console(STAGES + endpoints.stages)
    try:
        with interruptible():
            outcome = rehearse(arguments.experiment, Layout(ROOT), endpoints, console)
            print(outcome.summary(console), flush=True)
    except ExperimentError as error:
        for line in str(error).splitlines():
            print(f"rehearsal: {line}", file=sys.stderr)
        return 1
    except (RehearsalError, ProcessError, BotoCoreError, ClientError, OSError) as error:
        stage = f"{console.current.title}: " if console.current else ""
        print(f"rehearsal: {stage}{' '.join(str(error).split())}", file=sys.stderr)
        return 1
    except Interrupted as interruption:
        kept = "results/ has what was measured, and the next rehearsal begins anew"
        print(f"rehearsal: ended by {interruption}; {kept}", file=sys.stderr)
        return 128 + interruption.by
    if failed := outcome.failed:
        print(f"rehearsal: {len(failed)} failed: {'; '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
