"""The ledger: one JSON line per request, on file before the client can know that it ended."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pydantic import TypeAdapter, ValidationError

from benchmark import journal
from benchmark.errors import LedgerError


@dataclass(frozen=True)
class Record:
    """One request, as the tap saw it.

    ``sent`` is in Unix seconds; ``end`` and the first of each pair of ``chunks`` are seconds after
    it, by a monotonic clock. ``chunks`` holds the events that carried tokens, and how many; where
    ``per_chunk`` is False the server did not say how many, the second of each pair is 0 and
    ``output_tokens`` is all there is. ``round`` 0 is the warm-up. ``status`` is None where no
    answer came; ``error`` is None where it came whole.
    """

    run: str
    variant: str
    case: str
    round: int
    request: str
    sent: float
    status: int | None
    error: str | None
    prompt_tokens: int | None
    output_tokens: int | None
    stream: bool
    per_chunk: bool
    chunks: tuple[tuple[float, int], ...]
    end: float

    @property
    def succeeded(self) -> bool:
        """Whether the answer came whole, with status 200."""
        return self.error is None and self.status == 200


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
