"""``read FILE ...``: prints the table of any ledgers.

FILE is a ledger or a folder with a ledger.jsonl. A ledger with a run's config.json beside it gets
the table of that run. All other ledgers are read together, as if they were one.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from spectap.commands.arguments import refuse_jobs
from spectap.errors import ConfigError, JournalError
from spectap.ledger import read_ledger
from spectap.names import CONFIG, LEDGER
from spectap.record import Record

if TYPE_CHECKING:
    from spectap.report.results import Results


def options(parser: argparse.ArgumentParser) -> None:
    """Adds the command's options."""
    parser.add_argument("files", type=Path, nargs="+", metavar="FILE")


def main(arguments: argparse.Namespace) -> int:
    """Prints; returns the exit status. Raises ConfigError, RunError and JournalError."""
    # Imported here: numpy takes a while, which no other command should wait for.
    from spectap.report import terminal

    runs, records = gather(arguments.files)
    for run in runs:
        terminal.show_run(run)
        print()
    if records:
        terminal.show_ledgers(records)
        print()
    return 0


def gather(paths: Iterable[Path]) -> tuple[list[Results], list[Record]]:
    """The runs that are among the paths, and the requests of all other ledgers.

    Raises ConfigError, RunError for a run of jobs, and JournalError.
    """
    from spectap.report import results

    runs: list[Results] = []
    records: list[Record] = []
    for path in paths:
        if path.is_dir():
            refuse_jobs(path)
        ledger = path / LEDGER if path.is_dir() else path
        own = _records(ledger)
        if ledger.name != LEDGER or not (ledger.parent / CONFIG).exists():
            records += own
            continue
        try:
            runs.append(results.read(ledger.parent))
        except ConfigError:
            # A file of this name lies in folders of other kinds, too, such as a model's.
            if path.is_dir():
                raise
            records += own
    return runs, records


def _records(ledger: Path) -> list[Record]:
    """The records of a ledger: at least one. Raises JournalError."""
    try:
        ledger.stat()  # the ledger of a run may be missing, but not one that was asked for
        records = read_ledger(ledger)
    except OSError as error:
        raise JournalError(f"{ledger}: cannot be read: {error.strerror}") from None
    if not records:
        raise JournalError(f"{ledger}: has no request")
    return records
