"""Requests by OpenAI's two APIs of text: their paths, their fields, and filler text.

This module imports neither pydantic nor orjson: the built-in driver starts for each turn, and the
app's synthesis and vLLM's own tests have few packages.
"""

import random
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, Final

CHARACTERS_PER_TOKEN: Final = 4
"""An estimate for use without a tokenizer."""

# Shakespeare, sonnet 18: stands in for the text that llmperf brings.
_SONNET: Final = """\
Shall I compare thee to a summer's day?
Thou art more lovely and more temperate:
Rough winds do shake the darling buds of May,
And summer's lease hath all too short a date;
Sometime too hot the eye of heaven shines,
And often is his gold complexion dimm'd;
And every fair from fair sometime declines,
By chance or nature's changing course untrimm'd;
But thy eternal summer shall not fade,
Nor lose possession of that fair thou ow'st;
Nor shall death brag thou wander'st in his shade,
When in eternal lines to time thou grow'st:
So long as men can breathe or eyes can see,
So long lives this, and this gives life to thee.
"""


class EndpointType(StrEnum):
    """OpenAI's API that requests go to."""

    CHAT = "chat"
    COMPLETIONS = "completions"


PATHS: Final = {
    EndpointType.CHAT: "chat/completions",
    EndpointType.COMPLETIONS: "completions",
}
"""Below ``/v1``."""


def prompt_fields(
    endpoint_type: EndpointType, messages: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """The fields of a request that hold the prompt: ``messages``, or the text of the last one."""
    if endpoint_type is EndpointType.CHAT:
        return {"messages": messages}
    return {"prompt": messages[-1]["content"]}


def filling_lines(line: str | None) -> list[str]:
    """The lines that fill a test case's prompts: its own line, or for None a sonnet's lines."""
    text = _SONNET if line is None else line.rstrip("\n") + "\n"
    return text.splitlines(keepends=True)


def filled_prompt(chance: random.Random, lines: list[str], characters: int, length: int) -> str:
    """A prompt of so many ``characters``: an instruction, then shuffled ``lines``.

    It asks for ``length`` tokens. No two begin alike, because a server that caches prefixes would
    skip most of the prefill.
    """
    mark = f"{chance.getrandbits(32):08x}"
    text = f"{mark}: Go on with lines like these until there are {length} tokens:\n\n"
    while len(text) < characters:
        text += "".join(chance.sample(lines, len(lines)))
    return text[:characters]


def estimated_tokens(text: str) -> int:
    return -(-len(text) // CHARACTERS_PER_TOKEN)
