"""Where the greedy answers of the two endpoints part, if they do: told, never a failure.

Equal text is not promised: sums of another order round differently, and where two tokens are about
equally likely that decides (vllm-project/vllm #7627).
"""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any, Final

import aiohttp

from benchmark.config import Config, TestCase
from benchmark.load import builtin, llmperf
from benchmark.names import VARIANTS

DIVERGENCE: Final = "divergence.json"

_TIMEOUT: Final = aiohttp.ClientTimeout(total=600)
_CHARACTERS_PER_TOKEN: Final = 4


@dataclass(frozen=True)
class Divergence:
    """One prompt. ``first``: number of the first ``unit`` that differs, from 1; None if none does.

    ``compared`` is how many there were of the longer answer. The unit is a token where the server
    tells its tokens, otherwise a word.
    """

    case: str
    unit: str
    compared: int
    first: int | None


async def compare(config: Config) -> list[Divergence]:
    """Asks both endpoints each test case's prompt once; leaves out what is not answered."""
    found = []
    async with aiohttp.ClientSession(timeout=_TIMEOUT) as session:
        for case in config.test_cases:
            body = _body(config, case)
            answers = await asyncio.gather(
                *(_ask(session, config.endpoints[variant], body) for variant in VARIANTS)
            )
            if all(answer is not None for answer in answers):
                found.append(_compared(case.name, [a for a in answers if a is not None]))
    return found


def write(folder: Path, found: Sequence[Divergence]) -> None:
    """Writes them into a run's folder. Raises OSError."""
    content = json.dumps([asdict(divergence) for divergence in found], indent=2)
    (folder / DIVERGENCE).write_text(content + "\n", encoding="utf-8")


def read(folder: Path) -> tuple[Divergence, ...]:
    """What ``write`` has written; nothing if it has not."""
    path = folder / DIVERGENCE
    if not path.exists():
        return ()
    return tuple(Divergence(**entry) for entry in json.loads(path.read_text(encoding="utf-8")))


def _body(config: Config, case: TestCase) -> dict[str, Any]:
    length = config.load.mean_output_tokens
    lines = builtin.lines(None if case.line is None else llmperf.repeated(case.line))
    characters = config.load.mean_input_tokens * _CHARACTERS_PER_TOKEN
    prompt = builtin.prompt(random.Random(case.name), lines, characters, length)
    return {
        "model": config.model,
        "messages": [{"role": "user", "content": prompt}],
        "max_tokens": length,
        "temperature": 0.0,
        "return_token_ids": True,  # vLLM 0.10.2 and later; others pass over it
    }


async def _ask(
    session: aiohttp.ClientSession, endpoint: str, body: Mapping[str, Any]
) -> Mapping[str, Any] | None:
    try:
        async with session.post(f"{endpoint}/chat/completions", json=body) as response:
            answer = await response.json() if response.status == 200 else None
        return answer["choices"][0] if answer else None
    except (aiohttp.ClientError, asyncio.TimeoutError, ValueError, KeyError, IndexError):
        return None


def _compared(case: str, answers: Sequence[Mapping[str, Any]]) -> Divergence:
    tokens: list[Any] = [answer.get("token_ids") for answer in answers]
    if all(tokens):
        unit, pieces = "token", tokens
    else:
        unit = "word"
        pieces = [(answer["message"].get("content") or "").split() for answer in answers]
    pairs = list(zip_longest(*pieces))
    return Divergence(case, unit, len(pairs), next(_different(pairs), None))


def _different(pairs: Sequence[tuple[Any, ...]]) -> Iterator[int]:
    return (number for number, (one, other) in enumerate(pairs, start=1) if one != other)
