"""``compare OLD NEW``: says what changed between two runs, and whether it is real.

A run is a folder, or the name of one in results/. With --fail-below it is a gate: exit status 3
where tokens per step or a speed-up is surely less than that part of what it was, and where the new
run does not show what the old one does. Runs with other loads, lengths or test cases are not
comparable: that is said first, and a gate on them ends with 2.
"""

from __future__ import annotations

import argparse
from argparse import ArgumentTypeError
from pathlib import Path
from typing import TYPE_CHECKING, Final

from spectap.commands.arguments import recorded, refuse_jobs
from spectap.errors import RunError
from spectap.names import CONFIG

if TYPE_CHECKING:
    from spectap.analysis.matching import Run

_FAILED: Final = 3


def options(parser: argparse.ArgumentParser) -> None:
    """Adds the command's options."""
    parser.add_argument("old", type=recorded, metavar="OLD")
    parser.add_argument("new", type=recorded, metavar="NEW")
    parser.add_argument(
        "--fail-below",
        type=_threshold,
        metavar="RATIO",
        help="new to old, such as 0.95: of tokens per step and of speed-ups",
    )


def main(arguments: argparse.Namespace) -> int:
    """Prints; returns the exit status. Raises RunError, and what reading the folders raises."""
    old, new = arguments.old, arguments.new
    if old.resolve() == new.resolve():
        raise RunError(f"{old}: is compared with itself")
    # Imported here: scipy and matplotlib take a while, which no error needs.
    from spectap.analysis.changes import compare
    from spectap.report import terminal
    from spectap.report.changes import of_changes

    runs = _read(old), _read(new)
    changes = compare(*runs, arguments.fail_below)
    terminal.show(of_changes(changes))
    return _FAILED if changes.failed else 0


def _threshold(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value <= 1:
        raise ArgumentTypeError(f"{text!r}: must be a number of more than 0 and at most 1")
    return value


def _read(folder: Path) -> Run:
    if not (folder / CONFIG).exists():
        raise RunError(f"{folder}: is not the folder of a run: it has no {CONFIG}")
    refuse_jobs(folder)
    from spectap.analysis.matching import Run
    from spectap.report import results

    run = results.read(folder)
    return Run(folder.name or folder.resolve().name, run.config, run.records, run.summary)
