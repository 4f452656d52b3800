"""The two files between the benchmark and what generates: what is asked, and what was generated."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

from pydantic import TypeAdapter

from spectap import journal
from spectap.names import GENERATIONS
from spectap.record import Record

REFUSED: Final = "refused: "
"""What the error of a prompt begins with that the compiled graphs cannot take.

Its tokens are counted where the tokenizer is, by what generates. To ask again would not help.
"""


class Asked(NamedTuple):
    """A line of ``generate.jsonl``: one prompt, in the order in which they are to be generated."""

    case: str
    load: str
    round: int
    """0 is the warm-up, -1 a control, which are in no figure."""
    attempt: int
    prompt: str
    """Its name in the set; empty where prompts have no names."""
    prompt_class: str
    messages: tuple[Mapping[str, Any], ...]
    chat_template_kwargs: Mapping[str, Any]
    max_tokens: int


@dataclass(frozen=True)
class Generated:
    """A line of ``generations.jsonl``: what came of one line of ``generate.jsonl``.

    ``sent`` is in Unix seconds, ``end`` and the first of each pair of ``steps`` are seconds after
    it. ``steps`` are the calls of the model, with the tokens that each yielded: first the prefill,
    then one for each verification. ``error`` is None where the answer came whole.
    """

    case: str
    load: str
    round: int
    attempt: int
    prompt: str
    prompt_class: str
    sent: float
    prompt_tokens: int | None
    steps: tuple[tuple[float, int], ...]
    end: float
    output_tokens: int
    text: str
    finish: Literal["stop", "length"] | None
    error: str | None = field(default=None)

    @property
    def problem(self) -> str | None:
        """Why it does not count as a whole answer; None where it does."""
        if self.error is not None:
            return self.error
        tokens = sum(yielded for _, yielded in self.steps)
        if tokens != self.output_tokens:
            return f"its steps have {tokens:,} tokens, and its text {self.output_tokens:,}"
        return None if tokens else "nothing was generated"


_GENERATED: Final = TypeAdapter(Generated)


def read(folder: Path) -> list[Generated]:
    """What was generated so far; a torn last line is not written yet.

    Raises OSError and JournalError.
    """
    return list(journal.read(folder / GENERATIONS, _GENERATED))


def refused(record: Record) -> bool:
    """Whether the graphs cannot take this prompt, so that another attempt would find the same."""
    return record.error is not None and record.error.startswith(REFUSED)
