"""The test cases of a benchmark that no experiment describes, and which prompts a round sends.

Each function that reads a file raises ConfigError, which names the file, the line and what is
wrong.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from pydantic import ValidationError

from benchmark import config
from benchmark.config import Structure, TestCase
from benchmark.errors import ConfigError

HEADLINES: Final = (
    TestCase(
        name="repeat-line",
        line="Repeat the following line exactly 50 times",
        structure=Structure.STRUCTURED,
        headline=True,
    ),
    TestCase(
        name="meaning-of-life",
        line="I believe the meaning of life is",
        structure=Structure.OPEN_ENDED,
        headline=True,
    ),
)
"""The two headline prompts of the article."""


def read_cases(path: Path) -> tuple[TestCase, ...]:
    """The test cases of a file: JSON lines with the fields of ``TestCase``.

    Where no line has ``headline``, the first two cases are drawn in the report's figures.
    """
    cases = [_case(where, line) for where, line in _lines(path)]
    if not any(case.headline for case in cases):
        cases[:2] = [case.model_copy(update={"headline": True}) for case in cases[:2]]
    return tuple(cases)


def read_prompts(path: Path) -> TestCase:
    """The prompts of a file as one test case, which is named after the file.

    One prompt a line; or JSON lines, if the first line begins with ``{``, whose field ``prompt`` is
    the prompt. No claim is made about the answers, so the structure is open-ended.
    """
    found = list(_lines(path))
    is_json = found[0][1].startswith("{")
    prompts = [_prompt(where, line) if is_json else line for where, line in found]
    return TestCase(
        name=re.sub(r"[^A-Za-z0-9]+", "-", path.stem).strip("-")[:64] or "prompts",
        line=None,
        prompts=tuple(prompts),
        structure=Structure.OPEN_ENDED,
        headline=True,
    )


def of_round(case: TestCase, round: int, requests: int) -> TestCase:
    """The test case with the prompts that one round sends, where they are sent as they are.

    Each round sends the next ``requests`` of them and begins again at the first when they run out,
    so that the rounds sample different prompts. The warm-up sends those of the first round.
    """
    if not case.prompts:
        return case
    first = max(0, round - 1) * requests
    places = (place % len(case.prompts) for place in range(first, first + requests))
    return case.model_copy(update={"prompts": tuple(case.prompts[place] for place in places)})


def _lines(path: Path) -> Iterator[tuple[str, str]]:
    """The lines that are not blank, each with ``file:line``; at least one."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: is not UTF-8: {error.reason} at byte {error.start}") from None
    if not text.strip():
        raise ConfigError(f"{path}: has no line")
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            yield f"{path}:{number}", line.strip()


def _case(where: str, line: str) -> TestCase:
    try:
        return TestCase.model_validate_json(line)
    except ValidationError as error:
        raise ConfigError(f"{where}: {next(config.lines(error))}") from None


def _prompt(where: str, line: str) -> str:
    try:
        value = json.loads(line)
    except ValueError as error:
        raise ConfigError(f"{where}: is not JSON: {error}") from None
    prompt = value.get("prompt") if isinstance(value, dict) else None
    if not isinstance(prompt, str) or not prompt:
        raise ConfigError(f"{where}: prompt: must be a text that is not empty")
    return prompt
