"""``python -m rehearsal.account [--hold] EXPERIMENT``: ``make experiment`` on this machine.

A small experiment of the same shape goes the whole way from the file to the verdict, in an embedded
account with a real Kubernetes control plane. ``--hold`` keeps both afterwards, to be played with.
Exit status: that of ``make experiment``; 1 if the account does not start; 128 + n if signal n ended
it. No process is left behind.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from control_plane.errors import ControlPlaneError
from experiment import DEFAULT_FILE, ExperimentError, load
from rehearsal.account.small import write_small
from rehearsal.account.timeline import told
from rehearsal.account.world import STANDS_IN, World, world
from rehearsal.errors import RehearsalError
from rehearsal.process.errors import ProcessError
from rehearsal.process.interruption import Interrupted, held, interruptible
from rehearsal.process.watch import Watch

ROOT: Final = Path(__file__).resolve().parents[2]
FOLDER: Final = Path(".cache", "account")
_END_SECONDS: Final = 30.0


def main() -> int:
    """Rehearses; returns the exit status."""
    parser = argparse.ArgumentParser(prog="rehearsal.account", description=__doc__)
    parser.add_argument("experiment", nargs="?", default=DEFAULT_FILE)
    parser.add_argument("--hold", action="store_true", help="keep the account afterwards")
    given = parser.parse_args()
    folder = ROOT / FOLDER
    try:
        with interruptible():
            shutil.rmtree(folder, ignore_errors=True)
            file = write_small(given.experiment, folder / "experiments")
            _say([f"{given.experiment}, made small: {file}", "Here stands in:"])
            _say(f"  {line}" for line in STANDS_IN)
            with world(load(str(file)), ROOT, folder) as account:
                return _rehearse(account, file, hold=given.hold)
    except (ExperimentError, RehearsalError, ControlPlaneError, ProcessError, OSError) as error:
        for line in str(error).splitlines():
            print(f"rehearsal: {line}", file=sys.stderr)
        return 1
    except Interrupted as interruption:
        print(f"rehearsal: ended by {interruption}", file=sys.stderr)
        return 128 + interruption.by


def _rehearse(account: World, file: Path, *, hold: bool) -> int:
    status = command(account, file, "bootstrap")
    status = status or command(account, file, "experiment", "--yes")
    account.check()
    _say(["", "What happened, in UTC:", *(f"  {line}" for line in told(account))])
    if hold:
        _say(["", "The account stays until Ctrl-C. To act on it from another terminal:"])
        _say(_exports(account))
        _say([f"make status EXPERIMENT={file}"])
        while True:
            account.check()
            time.sleep(1)
    return status


def command(account: World, file: Path, *words: str) -> int:
    """Runs a command of ``deployment`` on this terminal; returns its exit status."""
    line = [sys.executable, "-u", "-m", "deployment", *words, "--experiment", str(file)]
    with held():
        process = subprocess.Popen(line, cwd=ROOT, env=dict(account.environment))
        watch = Watch(process.pid)
    try:
        return process.wait()
    except Interrupted:
        # Ctrl-C has reached it, too; it says what stands.
        with held():
            process.terminate()
            process.wait(_END_SECONDS)
        raise
    finally:
        watch.call_off()


def _exports(account: World) -> Iterator[str]:
    for name, value in account.environment.items():
        if name.startswith("AWS_"):
            yield f"export {name}={value}"
    yield f"export KUBECONFIG={account.plane.kubeconfig}"


def _say(lines: Iterator[str] | list[str]) -> None:
    for line in lines:
        print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main())
