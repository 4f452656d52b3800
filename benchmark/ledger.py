"""Reading a ledger: one JSON line per request."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from pydantic import TypeAdapter, ValidationError

from benchmark import journal
from benchmark.errors import LedgerError
from benchmark.record import Record

_RECORD: Final = TypeAdapter(Record)


def read_ledger(path: Path) -> list[Record]:
    """All records of a ledger, in the order they were written; none if there is no file.

    Raises LedgerError on a line that is no record, unless it is a torn last one.
    """
    return [_parse(path, number, line) for number, line in journal.lines(path)]


def _parse(path: Path, number: int, line: bytes) -> Record:
    try:
        return _RECORD.validate_json(line)
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
        field = ".".join(map(str, problem["loc"]))
        raise LedgerError(f"{path}:{number}: {field}: {problem['msg']}") from None
