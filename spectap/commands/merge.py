"""``merge FOLDER``: makes one run of variants that were measured apart.

FOLDER is a run's folder as it lies in the bucket, with the variants in FOLDER/variants. Those that
are complete, as is their baseline, become one run, which ``report`` and ``read`` can read.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from spectap import wording
from spectap.errors import MergeError
from spectap.printing import printable
from spectap.sweep.merge import merge
from spectap.sweep.merged import Merged


def options(parser: argparse.ArgumentParser) -> None:
    """Adds the command's options."""
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="such as results/RUN_ID")


def main(arguments: argparse.Namespace) -> int:
    """Merges; returns the exit status. Raises ConfigError, JournalError and MergeError."""
    folder: Path = arguments.folder
    if not folder.is_dir():
        raise MergeError(f"{folder}: there is no such folder")
    merged = merge(folder)
    say(merged)
    return 0 if merged.complete else 1


def say(merged: Merged) -> None:
    """Prints what is in the run and what is not."""
    every = len(merged.complete) + len(merged.missing)
    print(f"merged: {len(merged.complete)} of {wording.count(every, 'variant')}")
    for sentence in merged.sentences:
        print(printable(sentence))
