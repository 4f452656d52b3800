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

import aiohttp
import orjson

from spectap.endpoint.health import content, open_session, root
from spectap.printing import printable
from spectap.prompt import Prompt

_ONE_TRY_SECONDS: Final = 30
_CONCURRENCY: Final = 8
_TRIED: Final = 2
"""Prompts without an answer before a server is taken not to count."""
_LONGEST_REASON: Final = 120


class Counted(NamedTuple):
    """A prompt, counted by a server."""

    tokens: int
    """Of the prompt, with what the chat template adds."""
    most: int
    """Tokens of prompt and answer together that the server takes (``max_model_len``)."""


class Refused(NamedTuple):
    """A prompt that a server refuses, though it counts others."""

    reason: str
    """In the server's words, on one line."""


async def count(
    endpoint: str, model: str, prompts: Sequence[Prompt], sampling: Mapping[str, Any]
) -> list[Counted | Refused | None]:
    """Counts the prompts at one endpoint, in their order; None for each that it did not count.

    ``sampling`` is what each request carries: its ``chat_template_kwargs`` change the count. Where
    a server refuses every prompt, it is the question that it does not understand, as where its
    ``/tokenize`` is another than vLLM's: then none of them is refused.
    """
    url = f"{root(endpoint)}/tokenize"
    bodies = [_body(model, prompt, sampling) for prompt in prompts]
    slots = asyncio.Semaphore(_CONCURRENCY)

    async def counted(body: Mapping[str, Any]) -> Counted | Refused | None:
        async with slots:
            return await _count(session, url, body)

    results: list[Counted | Refused | None] = []
    async with open_session(_ONE_TRY_SECONDS) as session:
        # A server that does not count the first of them is not asked for all of the others.
        while len(results) < min(_TRIED, len(bodies)) and not any(results):
            results.append(await counted(bodies[len(results)]))
        if any(results):
            results += await asyncio.gather(*map(counted, bodies[len(results) :]))
    counts = any(isinstance(result, Counted) for result in results)
    return results if counts else [None] * len(bodies)


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


async def _count(
    session: aiohttp.ClientSession, url: str, body: Mapping[str, Any]
) -> Counted | Refused | None:
    """None where the answer is not vLLM's, or does not come."""
    for _ in range(2):  # a busy server is given a second chance
        try:
            async with session.post(url, json=body) as response:
                text = await content(response)
            if response.status == 400:
                return Refused(_reason(text.decode("utf-8", "replace")))
            if response.status != 200:
                return None
            answer = orjson.loads(text)
            return Counted(int(answer["count"]), int(answer["max_model_len"]))
        except TimeoutError:
            continue
        except (aiohttp.ClientError, LookupError, TypeError, ValueError):  # or of another shape
            return None
    return None


def _reason(text: str) -> str:
    """What a server says of an error: vLLM's message, as OpenAI's API has it, or all of it."""
    try:
        error = orjson.loads(text)
        error = error.get("error", error)  # Older versions do not have it in "error".
        text = str(error["message"])
    except (AttributeError, LookupError, TypeError, ValueError):
        pass  # of another shape
    line = printable(" ".join(text.split()))
    if len(line) > _LONGEST_REASON:
        line = f"{line[:_LONGEST_REASON].rstrip()}…"
    return line or "no reason given"
