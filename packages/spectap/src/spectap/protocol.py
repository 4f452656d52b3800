"""OpenAI's two APIs of text, as far as they differ: where a request goes, and what is in it.

No pydantic here: the built-in driver starts for each turn, and importing pydantic takes a while.
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, Final


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
    """The part of a request that is the prompt: ``messages``, or the text of the last of them."""
    if endpoint_type is EndpointType.CHAT:
        return {"messages": messages}
    return {"prompt": messages[-1]["content"]}
