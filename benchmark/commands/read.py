"""``read FILE ...``: prints the table of any ledgers.

FILE is a ledger or a folder with a ledger.jsonl. A ledger with a config.json beside it is a run: it
gets the run's own table. All other ledgers are read together, as if they were one.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from benchmark.errors import JournalError
from benchmark.ledger import read_ledger
from benchmark.names import CONFIG, LEDGER


def options(parser: argparse.ArgumentParser) -> None:
    """Adds the command's options."""
    parser.add_argument("files", type=Path, nargs="+", metavar="FILE")


def main(arguments: argparse.Namespace) -> int:
    """Prints; returns the exit status. Raises JournalError and ConfigError."""
    from benchmark.report import terminal

    width = terminal.terminal_width()
    records = []
    for path in map(_ledger, arguments.files):
        if (path.parent / CONFIG).exists() and path.name == LEDGER:
            print(terminal.render(path.parent, width))
        else:
            records += read_ledger(path)
    if records:
        print(terminal.render_ledgers(records, width))
    return 0


def _ledger(path: Path) -> Path:
    """The ledger that ``path`` is, or has in it. Raises JournalError where it has no request."""
    ledger = path / LEDGER if path.is_dir() else path
    try:
        if not ledger.read_bytes():
            raise JournalError(f"{ledger}: is empty")
    except OSError as error:
        raise JournalError(f"{ledger}: cannot be read: {error.strerror}") from None
    return ledger
