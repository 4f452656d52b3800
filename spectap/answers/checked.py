"""The ``answers.jsonl`` of a run: how it is read, and which of its lines count."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from pydantic import TypeAdapter

from spectap import journal
from spectap.answer import CheckedAnswer

_CHECKED: Final = TypeAdapter(CheckedAnswer)


def read_checked(path: Path) -> list[CheckedAnswer]:
    """All lines of the file; none if there is none. Raises OSError and JournalError."""
    return list(journal.read(path, _CHECKED))


def last_attempts(answers: Iterable[CheckedAnswer], *, apart: bool = False) -> list[CheckedAnswer]:
    """The answers of the last attempt at each turn, as ``ledger.last_attempts`` has the requests.

    Variants that were measured ``apart`` have turns, and attempts at them, of their own.
    An attempt in which nothing was answered has no line here, so that the one before it counts.
    """
    answers = list(answers)
    last: dict[tuple[int, str, str, str], int] = {}
    for answer in answers:
        turn = _turn(answer, apart=apart)
        last[turn] = max(answer.attempt, last.get(turn, 0))
    return [answer for answer in answers if answer.attempt == last[_turn(answer, apart=apart)]]


def _turn(answer: CheckedAnswer, *, apart: bool) -> tuple[int, str, str, str]:
    return answer.round, answer.case, answer.load, answer.variant if apart else ""
