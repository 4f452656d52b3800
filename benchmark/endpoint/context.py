"""How many tokens a prompt has by a server's own count, and how many the server takes.

vLLM counts at ``/tokenize``, which applies the model's chat template as a request would, and says
the longest sequence it serves. Source: ``TokenizeChatRequest`` and ``TokenizeResponse``, which have
the same fields in Neuron's fork of vLLM since v2.23.0 (``vllm/entrypoints/openai/protocol.py``) and
in vLLM 0.32 (``vllm/entrypoints/serve/tokenize/protocol.py``). vLLM before 0.9 counts no tools.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

import aiohttp

from benchmark.endpoint.session import open_session
from benchmark.prompt import Prompt

_ONE_TRY_SECONDS: Final = 30
_AT_ONCE: Final = 8


class Counted(NamedTuple):
    """A prompt, counted by a server."""

    tokens: int
    """Of the prompt, with what the chat template adds."""
    most: int
    """Tokens of prompt and answer together that the server takes (``max_model_len``)."""


async def count(
    endpoint: str, model: str, prompts: Sequence[Prompt], sampling: Mapping[str, Any]
) -> list[Counted | None]:
    """Counts the prompts at one endpoint, in their order; None for each that it did not count.

    ``sampling`` is what each request carries: its ``chat_template_kwargs`` change the count.
    """
    parts = urlsplit(endpoint)
    url = f"{parts.scheme}://{parts.netloc}/tokenize"
    bodies = [_body(model, prompt, sampling) for prompt in prompts]
    places = asyncio.Semaphore(_AT_ONCE)

    async def one(body: Mapping[str, Any]) -> Counted | None:
        async with places:
            return await _counted(session, url, body)

    async with open_session(_ONE_TRY_SECONDS) as session:
        # A server that does not count the first of them is not asked for all of the others.
        first = [await one(body) for body in bodies[:1]]
        if first == [None]:
            return [None] * len(bodies)
        return first + await asyncio.gather(*map(one, bodies[1:]))


def _body(model: str, prompt: Prompt, sampling: Mapping[str, Any]) -> dict[str, Any]:
    body: dict[str, Any] = {
        "model": model,
        "messages": prompt.messages,
        "add_generation_prompt": True,
    }
    if prompt.tools:
        body["tools"] = prompt.tools
    if "chat_template_kwargs" in sampling:
        body["chat_template_kwargs"] = sampling["chat_template_kwargs"]
    return body


async def _counted(
    session: aiohttp.ClientSession, url: str, body: Mapping[str, Any]
) -> Counted | None:
    """None where there is no such path, and where the answer is not vLLM's."""
    try:
        async with session.post(url, json=body) as response:
            if response.status != 200:
                return None
            answer = await response.json(content_type=None)
        return Counted(int(answer["count"]), int(answer["max_model_len"]))
    except (aiohttp.ClientError, asyncio.TimeoutError):
        return None
    except (LookupError, TypeError, ValueError):  # of another shape
        return None
