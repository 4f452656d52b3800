"""Where a variant's greedy answers begin to differ from its baseline's, if they do.

A difference is no failure: sums in another order round differently, which decides between two
tokens that are about equally likely (vllm-project/vllm #7627).
"""

import asyncio
import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any, Final

import aiohttp
import orjson

from spectap.config import Config, TestCase
from spectap.endpoint.health import content, open_session
from spectap.errors import JournalError
from spectap.journal import write_whole
from spectap.load import llmperf, requests

DIVERGENCE: Final = "divergence.json"

_TIMEOUT_SECONDS: Final = 600.0


@dataclass(frozen=True)
class Divergence:
    """One prompt, answered by a variant and by its baseline."""

    variant: str
    case: str
    unit: str
    """What is compared: words."""
    compared: int
    """Units of the longer answer."""
    first: int | None
    """Number of the first unit that differs, from 1; None if none does."""


async def compare(config: Config) -> list[Divergence]:
    """Asks every variant each line's prompt once. What is not answered is left out."""
    divergences: list[Divergence] = []
    compared = [variant for variant in config.variants if variant.baseline]
    if not compared:
        return divergences
    async with open_session(_TIMEOUT_SECONDS) as session:
        for case in (case for case in config.test_cases if case.prompts is None):
            body = _body(config, case)
            asking = (
                _ask(session, url, body | {"model": config.models[name]})
                for name, url in config.endpoints.items()
            )
            if config.alternate:
                answers = [await answer for answer in asking]
            else:
                answers = await asyncio.gather(*asking)
            by_name = dict(zip(config.names, answers, strict=True))
            for variant in compared:
                answer, baseline = by_name[variant.name], by_name[variant.baseline or ""]
                if answer is not None and baseline is not None:
                    divergences.append(_compared(variant.name, case.name, answer, baseline))
    return divergences


def write(folder: Path, divergences: Sequence[Divergence]) -> None:
    """Writes ``divergence.json`` into a run's folder atomically. Raises OSError."""
    content = json.dumps([asdict(divergence) for divergence in divergences], indent=2)
    write_whole(folder / DIVERGENCE, [content.encode(), b"\n"])


def read(folder: Path) -> tuple[Divergence, ...]:
    """What ``write`` has written; nothing if there is no such file. Raises JournalError."""
    path = folder / DIVERGENCE
    if not path.exists():
        return ()
    try:
        entries = json.loads(path.read_text(encoding="utf-8"))
        # Runs from before variants had names compared the article's two.
        return tuple(Divergence(**({"variant": "SD"} | entry)) for entry in entries)
    except (TypeError, ValueError) as error:
        raise JournalError(f"{path}: cannot be read: {error}; delete it to go without") from None


def _body(config: Config, case: TestCase) -> dict[str, Any]:
    lines = requests.text_lines(None if case.line is None else llmperf.repeated_line(case.line))
    characters = config.load.mean_input_tokens * requests.CHARACTERS_PER_TOKEN
    length = config.load.mean_output_tokens
    prompt = requests.filled_prompt(random.Random(case.name), lines, characters, length)
    return dict(config.load.sampling) | {
        "messages": [{"role": "user", "content": prompt}],
        "max_tokens": length,
        "temperature": 0.0,
    }


async def _ask(
    session: aiohttp.ClientSession, endpoint: str, body: Mapping[str, Any]
) -> list[str] | None:
    """The words of an answer; None where there is no answer, or none of the shape of OpenAI's."""
    try:
        async with session.post(f"{endpoint}/chat/completions", json=body) as response:
            if response.status != 200:
                return None
            choice = orjson.loads(await content(response))["choices"][0]
        words: list[str] = (choice["message"].get("content") or "").split()
        return words
    except (TimeoutError, aiohttp.ClientError):
        return None
    except (AttributeError, LookupError, TypeError, ValueError):  # of another shape
        return None


def _compared(variant: str, case: str, answer: list[str], baseline: list[str]) -> Divergence:
    pairs = list(zip_longest(answer, baseline))
    first = next((n for n, (left, right) in enumerate(pairs, start=1) if left != right), None)
    return Divergence(variant, case, "word", len(pairs), first)
