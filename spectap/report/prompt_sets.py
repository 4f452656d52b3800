"""How sets of prompts are written: where they come from, and which of them were not sent."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from spectap import wording
from spectap.names import WARM_UP
from spectap.prompt import LeftOut, UsedSet
from spectap.record import Record
from spectap.report.results import Results

_FEW: Final = 5
_UNCOUNTED: Final = "some could not be counted, and may be too long"
_DIGITS: Final = 12
"""Of a digest: enough to tell two sets apart."""


@dataclass(frozen=True)
class Set:
    """The prompts of one test case."""

    case: str
    source: str
    licence: str
    digest: str
    prompts: str
    """How many could be sent, and how many were where that is not all."""
    classes: str
    left_out: tuple[str, ...]
    """The name of each prompt that was not sent, with its length or why it was refused."""
    why: str
    """Why they were left out."""
    uncounted: str
    """What to know where not all prompts were counted beforehand; empty where they were."""

    @property
    def many(self) -> bool:
        """Whether so many were left out that their names would hide the rest."""
        return len(self.left_out) > _FEW

    @property
    def said(self) -> str:
        """How many of the prompts were sent."""
        left_out = "none left out"
        if self.left_out:
            left_out = f"{len(self.left_out)} left out: {self.why}"
        return "; ".join(filter(None, (self.prompts, left_out, self.uncounted)))


def sets(run: Results) -> Iterator[Set]:
    """A set for each test case that has one."""
    for used in run.summary.sets:
        prompts = wording.count(used.used, "prompt")
        yield Set(
            case=used.case,
            source=used.source,
            licence=used.licence,
            digest=used.digest[:_DIGITS],
            prompts=f"{prompts}{_part(used, run.records)}",
            classes=wording.listed([f"{size} {name}" for name, size in used.classes if name]),
            left_out=tuple(f"{one.name} ({_because(one)})" for one in used.left_out),
            why=_why(used.left_out),
            uncounted="" if used.counted else _UNCOUNTED,
        )


def in_short(used: UsedSet, records: Iterable[Record]) -> str:
    """One sentence: the source, its licence, and what was left out, by name if that is little."""
    licence = f", {used.licence}" if used.licence else ""
    text = f"{used.case}: {wording.count(used.used, 'prompt')} of {used.source}{licence}"
    text += _part(used, records)
    if used.left_out:
        names = [
            f"{one.name} ({one.reason})" if one.reason else one.name for one in used.left_out[:_FEW]
        ]
        if more := len(used.left_out) - len(names):
            names.append(f"{more} more")
        text += f"; {len(used.left_out)} left out, {_why(used.left_out)}: {wording.listed(names)}"
    return f"{text}." if used.counted else f"{text}; {_UNCOUNTED}."


def _part(used: UsedSet, records: Iterable[Record]) -> str:
    """How many of the prompts were sent, where it is not all; empty where nobody knows.

    Rounds with few requests do not come to the end of a large set.
    """
    sent = {
        record.prompt
        for record in records
        if record.case == used.case and record.round > WARM_UP and record.prompt
    }
    return f"; {len(sent):,} of {used.used:,} sent" if 0 < len(sent) < used.used else ""


def _because(one: LeftOut) -> str:
    if one.reason:
        return f"refused: {one.reason}"
    return f"{one.tokens:,} tokens with its answer, {one.most:,} fit"


def _why(left_out: Sequence[LeftOut]) -> str:
    """Of all of them together."""
    reasons = {bool(one.reason): None for one in left_out}
    return " or ".join("refused by a service" if refused else "too long" for refused in reasons)
