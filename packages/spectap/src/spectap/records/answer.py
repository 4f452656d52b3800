"""The answers to prompts, as a run stores them."""

import hashlib
import json
from dataclasses import dataclass

from spectap.inputs.prompt import Form


@dataclass(frozen=True)
class ToolCall:
    """A call of a tool, as the server sent it. Name and arguments may be invalid."""

    name: str
    arguments: str


@dataclass(frozen=True)
class Answer:
    """One whole answer to a named prompt."""

    prompt: str
    content: str
    """The whole text, thoughts included."""
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
    """The form that was asked for; None for any."""
    valid: bool | None
    """Whether it has the form; None without a form, and where the answer was cut off."""
    problem: str
    """The reason why it is not valid; empty where it is, and where nothing was checked."""
    answer: Answer | None
    """The answer itself, if the experiment asks to keep it."""


def digest(answer: Answer) -> str:
    """SHA-256 of content and tool calls, as the server sent them, in hexadecimal digits."""
    calls = [[call.name, call.arguments] for call in answer.tool_calls]
    return hashlib.sha256(json.dumps([answer.content, calls]).encode()).hexdigest()
