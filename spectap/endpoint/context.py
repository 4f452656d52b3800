"""How many tokens a prompt has by a server's own count, and how many the server takes.

vLLM counts at ``/tokenize``, which applies the model's chat template as a request would, and says
the longest sequence it serves. Source: ``TokenizeChatRequest`` and ``TokenizeResponse``, which have
the same fields in Neuron's fork of vLLM since v2.23.0 (``vllm/entrypoints/openai/protocol.py``) and
in vLLM 0.32 (``vllm/entrypoints/serve/tokenize/protocol.py``). vLLM before 0.9 counts no tools.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

import aiohttp
import orjson

from spectap.endpoint.session import content, open_session
from spectap.printing import printable
from spectap.prompt import Prompt

_ONE_TRY_SECONDS: Final = 30
_AT_ONCE: Final = 8
_TRIED: Final = 2
"""Prompts without an answer before a server is taken not to count."""
_LONGEST_REASON: Final = 120
_NO_SUCH_PATH: Final = (
    HTTPStatus.NOT_FOUND,
    HTTPStatus.METHOD_NOT_ALLOWED,
    HTTPStatus.NOT_IMPLEMENTED,
)


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


class _NoSuchPathError(Exception):
    """The server has nothing that counts."""


async def count(
    endpoint: str, model: str, prompts: Sequence[Prompt], sampling: Mapping[str, Any]
) -> list[Counted | Refused | None]:
    """Counts the prompts at one endpoint, in their order; None for each that it did not count.

    ``sampling`` is what each request carries: its ``chat_template_kwargs`` change the count. Where
    a server refuses every prompt, it is the question that it does not understand, as where its
    ``/tokenize`` is another than vLLM's: then none of them is refused.
    """
    parts = urlsplit(endpoint)
    url = f"{parts.scheme}://{parts.netloc}/tokenize"
    bodies = [_body(model, prompt, sampling) for prompt in prompts]
    places = asyncio.Semaphore(_AT_ONCE)

    async def one(body: Mapping[str, Any]) -> Counted | Refused | None:
        async with places:
            try:
                return await _counted(session, url, body)
            except _NoSuchPathError:
                return None

    async with open_session(_ONE_TRY_SECONDS) as session:
        # A server that does not count the first of them is not asked for all of the others.
        first: list[Counted | Refused | None] = []
        for body in bodies[:_TRIED]:
            try:
                first.append(await _counted(session, url, body))
            except _NoSuchPathError:
                break
            if first[-1] is not None:
                break
        if not first or first[-1] is None:
            return [None] * len(bodies)
        found = first + await asyncio.gather(*map(one, bodies[len(first) :]))
    counts = any(isinstance(each, Counted) for each in found)
    return found if counts else [None] * len(bodies)


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
) -> Counted | Refused | None:
    """None where the answer is not vLLM's, or does not come. Raises _NoSuchPathError."""
    try:
        try:
            return await _asked(session, url, body)
        except TimeoutError:  # A busy server is given a second chance.
            return await _asked(session, url, body)
    except (TimeoutError, aiohttp.ClientError):
        return None
    except (LookupError, TypeError, ValueError):  # of another shape
        return None


async def _asked(
    session: aiohttp.ClientSession, url: str, body: Mapping[str, Any]
) -> Counted | Refused | None:
    async with session.post(url, json=body) as response:
        if response.status in _NO_SUCH_PATH:
            raise _NoSuchPathError
        if response.status == HTTPStatus.BAD_REQUEST:
            return Refused(_reason((await content(response)).decode("utf-8", "replace")))
        if response.status != HTTPStatus.OK:
            return None
        answer = orjson.loads(await content(response))
    return Counted(int(answer["count"]), int(answer["max_model_len"]))


def _reason(text: str) -> str:
    """What a server says of an error: vLLM's message, as OpenAI's API has it, or all of it."""
    try:
        said = orjson.loads(text)
        said = said.get("error", said)  # Older versions do not have it in "error".
        text = str(said["message"])
    except (AttributeError, LookupError, TypeError, ValueError):
        pass  # of another shape
    line = printable(" ".join(text.split()))
    if len(line) > _LONGEST_REASON:
        line = f"{line[:_LONGEST_REASON].rstrip()}…"
    return line or "no reason given"
