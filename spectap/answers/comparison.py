"""Whether two answers are the same, and where one parts from the other."""

from __future__ import annotations

import hashlib
import json
import re
from itertools import zip_longest
from typing import Final

import orjson

from spectap.answer import Answer

_WORD: Final = re.compile(r"\s*\S+(?:\s+\Z)?|\s+\Z")
"""With the space before it, since indentation is part of a program."""


def digest(answer: Answer) -> str:
    """SHA-256 of content and tool calls, as the server sent them, in hexadecimal digits."""
    calls = [[call.name, call.arguments] for call in answer.tool_calls]
    return hashlib.sha256(json.dumps([answer.content, calls]).encode()).hexdigest()


def words(answer: Answer) -> list[str]:
    """The words of the content, and after them those of each tool call.

    The arguments of a call are written in one way, so that neither the order of their keys nor the
    space between them is a difference.
    """
    found: list[str] = _WORD.findall(answer.content)
    for call in answer.tool_calls:
        found += [call.name, *_WORD.findall(_canonical(call.arguments))]
    return found


def parts_at(answer: Answer, baseline: Answer) -> int | None:
    """The first word in which the answers differ, from 1; None where they are the same."""
    pairs = zip_longest(words(answer), words(baseline))
    return next((number for number, (one, other) in enumerate(pairs, 1) if one != other), None)


def _canonical(arguments: str) -> str:
    try:
        return json.dumps(orjson.loads(arguments), sort_keys=True)
    except (orjson.JSONDecodeError, RecursionError):
        return arguments
