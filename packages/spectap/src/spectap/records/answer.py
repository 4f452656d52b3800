"""The answers to prompts: what a run stores of them."""

import hashlib
import json
from dataclasses import dataclass

from spectap.inputs.prompt import Form


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
    """The form that the answer had to have; None where it could be anything."""
    valid: bool | None
    """None where there is no form, and where the answer was cut off at its longest."""
    problem: str
    """Why it is not valid; empty where it is, or where nothing was checked."""
    answer: Answer | None
    """Stored where the experiment asks for it."""


def digest(answer: Answer) -> str:
    """SHA-256 of content and tool calls, as the server sent them, in hexadecimal digits."""
    calls = [[call.name, call.arguments] for call in answer.tool_calls]
    return hashlib.sha256(json.dumps([answer.content, calls]).encode()).hexdigest()
