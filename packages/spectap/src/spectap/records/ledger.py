"""Reads a ledger, one JSON line a request, and selects the requests that count."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from pydantic import TypeAdapter

from spectap.inputs.config import Config
from spectap.names import CONTROL, PROGRESS, WARM_UP
from spectap.records import journal
from spectap.records.answer import CheckedAnswer
from spectap.records.record import Record

Line = TypeVar("Line", Record, CheckedAnswer)


@dataclass(frozen=True)
class Attempt:
    """A completed measurement of a turn: a line of ``progress.jsonl``."""

    round: int
    case: str
    failure: str | None
    """None where it succeeded."""
    load: str = ""
    attempt: int = 1


def schema() -> dict[str, Any]:
    """The JSON Schema of a ledger's lines, as ledger.schema.json beside the package has it."""
    described = TypeAdapter(Record).json_schema() | {
        "title": "A line of spectap's ledger: one request"
    }
    return {"$schema": "https://json-schema.org/draft/2020-12/schema"} | described


def read_ledger(path: Path) -> list[Record]:
    """All records of a ledger; none if there is no file. Raises OSError and JournalError."""
    return list(journal.read(path, Record))


def last_attempts(lines: Iterable[Line], *, isolated: bool = False) -> list[Line]:
    """The lines of the last attempt at each turn of each run: requests, or checked answers.

    A turn is a test case at a load point in a round. An attempt measures all variants, so the next
    one replaces it for all of them. Where variants are measured ``isolated``, each has attempts of
    its own. All attempts at a control count.
    """

    def turn(line: Line) -> tuple[object, ...]:
        variant = line.variant if isolated else ""
        return getattr(line, "run", ""), line.round, line.case, line.load, variant

    lines = list(lines)
    last: dict[tuple[object, ...], int] = {}
    for line in lines:
        last[turn(line)] = max(line.attempt, last.get(turn(line), 0))
    return [line for line in lines if line.round == CONTROL or line.attempt == last[turn(line)]]


def read_attempts(folder: Path) -> list[Attempt]:
    """The attempts of a run; none if there is no file. Raises OSError and JournalError."""
    return list(journal.read(folder / PROGRESS, Attempt))


def uninterrupted(records: Iterable[Record], folder: Path) -> list[Record]:
    """The records of the run in ``folder`` without those of interrupted attempts.

    Without a ``progress.jsonl`` nobody knows which these are. Raises OSError and JournalError.
    """
    if not (folder / PROGRESS).exists():
        return list(records)
    ended: dict[tuple[int, str, str], int] = {}
    for attempt in read_attempts(folder):
        turn = attempt.round, attempt.case, attempt.load
        ended[turn] = max(attempt.attempt, ended.get(turn, 0))
    return [
        record
        for record in records
        if record.round <= WARM_UP
        or record.attempt <= ended.get((record.round, record.case, record.load), 0)
    ]


def whole_controls(records: Iterable[Record], config: Config) -> set[int]:
    """The attempts at a control that were completed. Others were a lighter load."""
    wave = config.wave
    controls = [record for record in records if record.round == CONTROL]
    sent = Counter(record.attempt for record in controls)
    good = Counter(record.attempt for record in controls if record.succeeded)
    return {n for n in sent if sent[n] >= wave.requests and good[n] >= config.needed(wave)}
