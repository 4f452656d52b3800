"""One answer to a prompt: as the driver saw it, and what is kept of it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from spectap.prompt import Form


@dataclass(frozen=True)
class ToolCall:
    """A call of a tool, as the server sent it; neither need be valid."""

    name: str
    arguments: str


@dataclass(frozen=True)
class Answer:
    """One whole answer to a named prompt."""

    prompt: str
    content: str
    """All text, thoughts included."""
    tool_calls: tuple[ToolCall, ...]
    finish: str | None
    """OpenAI's ``finish_reason``; None where the server gave none."""


@dataclass(frozen=True)
class CheckedAnswer:
    """A line of ``answers.jsonl``: an answer, checked. The first fields are the ledger's."""

    variant: str
    case: str
    load: str
    round: int
    attempt: int
    prompt: str
    digest: str
    """SHA-256 of content and tool calls, in hexadecimal digits."""
    finish: str | None
    form: Form | None
    """What the answer had to be; None where it could be anything."""
    valid: bool | None
    """None where there is no form, and where the answer was cut off at its longest."""
    problem: str
    """Why it is not valid; empty where it is, or where nothing was checked."""
    same: bool | None
    """Whether it is the baseline's; None for a baseline, and where the baseline has no answer."""
    parts_at: int | None
    """The first word that differs from the baseline's, from 1; None where none does."""
    words: int
    """Of this answer."""
    answer: Answer | None
    """Kept where the experiment asks for it."""


@dataclass(frozen=True)
class Evaluation:
    """One execution of lm-eval on the variants, whose samples lie in a run's folder."""

    id: str
    ended: datetime
    """When its last file was written, in UTC."""
    files: tuple[str, ...]
    """Its samples, as paths in the folder: others that lie there are not of it."""

    def __str__(self) -> str:
        return f"evaluation {self.id}, ended {self.ended:%Y-%m-%d %H:%M} UTC"


@dataclass(frozen=True)
class Score:
    """Whether a variant answered one question of an evaluation correctly."""

    task: str
    """Such as GSM8K."""
    variant: str
    question: str
    correct: bool
    evaluation: Evaluation | None = None
    """None where nobody noted it."""
