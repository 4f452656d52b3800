"""What a request asks for, as far as a golden endpoint looks at it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

CHARACTERS_PER_TOKEN: Final = 4
"""As the built-in driver takes it."""

DEFAULT_MAX_TOKENS: Final = 16


def prompt(body: dict[str, Any]) -> str:
    """All text of a chat or a completion, tools included, as a chat template would join it."""
    if "messages" not in body:
        return str(body["prompt"])
    return "\n".join([*_said(body), *map(json.dumps, body.get("tools") or ())]).strip()


def _said(body: dict[str, Any]) -> Iterator[str]:
    for message in body["messages"]:
        content = message.get("content") or ""
        if isinstance(content, str):
            yield content
        else:
            yield from (part.get("text", "") for part in content)


def tokens_of(text: str) -> int:
    """How many tokens a text has."""
    return -(-len(text) // CHARACTERS_PER_TOKEN)


def length(body: dict[str, Any]) -> int:
    """The longest answer that is asked for, in tokens."""
    asked = body.get("max_tokens") or body.get("max_completion_tokens") or DEFAULT_MAX_TOKENS
    return int(asked)
