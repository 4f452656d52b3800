"""Finds where a variant's greedy answers begin to differ from its baseline's.

A difference is not a failure. Sums in another order round differently, which decides between two
tokens of about equal probability (vllm-project/vllm #7627).
"""

import asyncio
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import aiohttp
import orjson

from spectap.endpoint.health import content, open_session
from spectap.inputs.config import Config, TestCase
from spectap.inputs.prompt import Prompt
from spectap.protocol import events, text

DIVERGENCE: Final = "divergence.json"

_TIMEOUT_SECONDS: Final = 600.0


@dataclass(frozen=True)
class Divergence:
    """One prompt, answered by a variant and by its baseline."""

    variant: str
    case: str
    unit: str
    """The unit compared: tokens, or words where a side does not list its tokens."""
    compared: int
    """Units of the longer answer."""
    first: int | None
    """The number of the first unit that differs, from 1; None if all are equal."""


class _Answer(NamedTuple):
    words: list[str]
    token_ids: list[int] | None


async def compare(
    config: Config, prompts: Mapping[str, Sequence[Prompt]] = MappingProxyType({})
) -> list[Divergence]:
    """Asks every variant once for each case: its line's prompt, or the first of its ``prompts``.

    Prompts without an answer are left out. A matched baseline is compared with the deciding
    baseline.
    """
    divergences: list[Divergence] = []
    deciding = {v.batch: v.name for v in config.variants if not v.baseline and not v.without}
    compared = {
        v.name: baseline
        for v in config.variants
        if (baseline := v.baseline or deciding.get(v.batch)) not in (None, v.name)
    }
    if not compared:
        return divergences
    path = text.PATHS[config.load.endpoint_type]
    async with open_session(_TIMEOUT_SECONDS) as session:
        for case in config.test_cases:
            body = _body(config, case, prompts.get(case.name, ()))
            asking = (
                _ask(session, f"{url}/{path}", body | {"model": config.models[name]})
                for name, url in config.endpoints.items()
            )
            if config.alternate:
                answers = [await answer for answer in asking]
            else:
                answers = await asyncio.gather(*asking)
            by_name = dict(zip(config.names, answers, strict=True))
            for name, baseline in compared.items():
                answer, other = by_name[name], by_name[baseline or ""]
                if answer is not None and other is not None:
                    divergences.append(_compared(name, case.name, answer, other))
    return divergences


def _body(config: Config, case: TestCase, prompts: Sequence[Prompt]) -> dict[str, Any]:
    lines = text.filling_lines(case.line)
    characters = config.load.mean_input_tokens * text.CHARACTERS_PER_TOKEN
    length = config.load.mean_output_tokens
    prompt = text.filled_prompt(random.Random(case.name), lines, characters, length)
    messages = prompts[0].messages if prompts else [{"role": "user", "content": prompt}]
    tools = {"tools": prompts[0].tools} if prompts and prompts[0].tools else {}
    return {
        **config.load.sampling,
        **text.prompt_fields(config.load.endpoint_type, messages),
        **tools,
        "max_tokens": length,
        "temperature": 0.0,
    }


async def _ask(session: aiohttp.ClientSession, url: str, body: Mapping[str, Any]) -> _Answer | None:
    """The answer to one request; None without one of OpenAI's form.

    vLLM 0.10.2 and later list an answer's tokens on request (``return_token_ids``). A server that
    refuses that field, or ``max_tokens``, is asked again without it.
    """
    renamed = {"max_completion_tokens" if n == "max_tokens" else n: v for n, v in body.items()}
    try:
        for asked in ({**body, "return_token_ids": True}, body, renamed):
            async with session.post(url, json=asked, allow_redirects=False) as response:
                if response.status == 200:
                    choice = orjson.loads(await content(response))["choices"][0]
                    text = events.message_of(choice)["content"] or ""
                    ids = choice.get("token_ids")
                    return _Answer(text.split(), ids if isinstance(ids, list) else None)
    except (TimeoutError, aiohttp.ClientError, AttributeError, LookupError, TypeError, ValueError):
        pass
    return None


def _compared(variant: str, case: str, answer: _Answer, baseline: _Answer) -> Divergence:
    """Compares two answers, by tokens if both list them: different tokens may have one text."""
    has_ids = answer.token_ids is not None and baseline.token_ids is not None
    field = "token_ids" if has_ids else "words"
    pairs = list(zip_longest(getattr(answer, field), getattr(baseline, field)))
    first = next((n for n, (left, right) in enumerate(pairs, start=1) if left != right), None)
    return Divergence(variant, case, "token" if has_ids else "word", len(pairs), first)
