"""The test cases of a benchmark that no experiment describes, and which prompts a round sends.

Each function that reads a file raises ConfigError, which names the file, the line and what is
wrong.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from pydantic import ValidationError

from spectap import config, prompt_file
from spectap.config import PromptSource, Structure, TestCase
from spectap.errors import ConfigError
from spectap.load.mix import mixed
from spectap.prompt import Prompt

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
    """A file of prompts as one test case, which is named after the file.

    What the file may hold: ``spectap.prompt_file.read_file``. It is read here to refuse it early.
    """
    content = prompt_file.content(path)
    prompt_file.parse(content, str(path))
    stem = path.name.partition(".")[0]
    digest = hashlib.sha256(content).hexdigest()
    return TestCase(
        name=re.sub(r"[^A-Za-z0-9]+", "-", stem).strip("-")[:64] or "prompts",
        prompts=PromptSource(file=path.name, digest=digest),
        headline=True,
    )


def of_round(prompts: Sequence[Prompt], round: int, requests: int) -> tuple[Prompt, ...]:
    """The prompts that one round sends: the next ``requests`` of a fixed order.

    The order is one in which each round has its share of each class (``mixed``). It begins again at
    its first when it has run out. So the rounds sample different prompts. The warm-up sends those
    of the first round. Of no prompts, none.
    """
    if not prompts:
        return ()
    order = mixed(prompts)
    first = max(0, round - 1) * requests
    return tuple(order[place % len(order)] for place in range(first, first + requests))


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
        case = TestCase.model_validate_json(line)
    except ValidationError as error:
        raise ConfigError(f"{where}: {next(config.lines(error))}") from None
    if case.prompts is None and case.structure is None:
        raise ConfigError(f"{where}: structure: must be {' or '.join(Structure)}")
    return case
