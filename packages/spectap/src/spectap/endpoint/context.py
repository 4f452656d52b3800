"""How many tokens a prompt has by a server's count, and how many the server takes.

vLLM's ``/tokenize`` applies the model's chat template and returns the longest sequence it serves.
Source: ``TokenizeChatRequest`` and ``TokenizeResponse``, with the same fields in Neuron's fork of
vLLM since v2.23.0 (``vllm/entrypoints/openai/protocol.py``) and in vLLM 0.32
(``vllm/entrypoints/serve/tokenize/protocol.py``). vLLM before 0.9 counts no tools.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import aiohttp
import orjson

from spectap.endpoint.health import content, open_session, root
from spectap.inputs.load_points import Load
from spectap.inputs.prompt import Prompt
from spectap.protocol import access, events
from spectap.protocol.text import EndpointType, prompt_fields

_ONE_TRY_SECONDS: Final = 60
_CONCURRENCY: Final = 8
_TRIED: Final = 2
"""The number of prompts without an answer after which a server is taken not to count."""


class Counted(NamedTuple):
    """A prompt, counted by a server."""

    tokens: int
    """Tokens of the prompt, those of the chat template included."""
    most: int
    """Tokens of prompt and answer together that the server takes (``max_model_len``)."""


class Refused(NamedTuple):
    """A prompt that a server refuses although it counts others."""

    reason: str
    """The server's reason, on one line."""


async def count(
    endpoint: str, model: str, prompts: Sequence[Prompt], load: Load
) -> list[Counted | Refused | None]:
    """Asks one endpoint to count the prompts' tokens, in order; None for each that it did not
    count.

    The load's ``chat_template_kwargs`` change the count. A server that refuses every prompt has
    another ``/tokenize`` than vLLM's, so its refusals do not count.
    """
    url = f"{root(endpoint)}/tokenize"
    more = {k: value for k, value in load.sampling.items() if k == "chat_template_kwargs"}
    if load.endpoint_type is EndpointType.CHAT:
        more["add_generation_prompt"] = True
    bodies = [
        {"model": model}
        | prompt_fields(load.endpoint_type, prompt.messages)
        | ({"tools": prompt.tools} if prompt.tools else {})
        | more
        for prompt in prompts
    ]
    slots = asyncio.Semaphore(_CONCURRENCY)

    async def counted(body: Mapping[str, Any]) -> Counted | Refused | None:
        """A prompt's count; None without an answer of vLLM's form."""
        try:
            async with slots, session.post(url, json=body, allow_redirects=False) as response:
                text = await content(response)
            if response.status == 400:
                reason = events.message(events.parsed(text) or text.decode("utf-8", "replace"))
                return Refused(events.clean(access.masked(reason)) or "no reason given")
            if response.status != 200:
                return None
            answer = orjson.loads(text)
            return Counted(int(answer["count"]), int(answer["max_model_len"]))
        except (TimeoutError, aiohttp.ClientError, LookupError, TypeError, ValueError):
            return None

    results: list[Counted | Refused | None] = []
    async with open_session(_ONE_TRY_SECONDS) as session:
        while len(results) < min(_TRIED, len(bodies)) and not any(results):
            results.append(await counted(bodies[len(results)]))
        if any(results):
            results += await asyncio.gather(*map(counted, bodies[len(results) :]))
    counts = any(isinstance(result, Counted) for result in results)
    return results if counts else [None] * len(bodies)
