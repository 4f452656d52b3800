"""Reading a ledger: one JSON line per request."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from pydantic import TypeAdapter

from benchmark import journal
from benchmark.record import Record

_RECORD: Final = TypeAdapter(Record)


def read_ledger(path: Path) -> list[Record]:
    """All records of a ledger, in the order they were written; none if there is no file.

    Raises OSError, and JournalError for a line that is no record, unless it is a torn last one.
    """
    return list(journal.read(path, _RECORD))
