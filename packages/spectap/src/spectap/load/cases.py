"""Reads test cases from files, and chooses the prompts of each round.

Each function that reads a file raises ConfigError.
"""

import hashlib
import random
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from pydantic import ValidationError

from spectap.errors import ConfigError, problems
from spectap.inputs import prompt
from spectap.inputs.config import PromptSource, Structure, TestCase
from spectap.inputs.load_points import Load, LoadPoint
from spectap.inputs.prompt import Prompt
from spectap.names import WARM_UP

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

_SEED: Final = "an order of prompts"


def read_cases(path: Path) -> tuple[TestCase, ...]:
    """The test cases of a file: JSON lines with the fields of ``TestCase``.

    Where no line has ``headline``, the first two cases are drawn in the report's figures.
    """
    try:
        text = prompt.read_content(path).decode()
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: is not UTF-8: {error.reason} at byte {error.start}") from None
    if not text.strip():
        raise ConfigError(f"{path}: has no line")
    cases = []
    for number, line in enumerate(map(str.strip, text.split("\n")), start=1):
        try:
            cases += [TestCase.model_validate_json(line)] if line else []
        except ValidationError as error:
            raise ConfigError(f"{path}:{number}: {next(problems(error))}") from None
        if line and cases[-1].prompts is None and cases[-1].structure is None:
            raise ConfigError(f"{path}:{number}: structure: must be {' or '.join(Structure)}")
    if not any(case.headline for case in cases):
        cases[:2] = [case.model_copy(update={"headline": True}) for case in cases[:2]]
    return tuple(cases)


def read_prompts(path: Path) -> TestCase:
    """A file of prompts (``spectap.inputs.prompt``) as one test case, named after the file."""
    content = prompt.read_content(path)
    prompt.parse(content, str(path))
    stem = path.name.partition(".")[0]
    digest = hashlib.sha256(content).hexdigest()
    return TestCase(
        name=re.sub(r"[^A-Za-z0-9]+", "-", stem).strip("-")[:64] or "prompts",
        prompts=PromptSource(file=path.name, digest=digest),
        headline=True,
    )


def of_turn(
    prompts: Sequence[Prompt], load: Load, round: int, point: LoadPoint, fill: int = 0
) -> tuple[Prompt, ...]:
    """The prompts of one turn: the next ones of ``mixed``, over all rounds and load points.

    A prompt comes again only after all others, because a server may have cached it. The first
    ``fill`` prompts do not count. They are ones that were sent before or that come last, like those
    of warm-ups and controls.
    """
    order = mixed(prompts)
    first = -point.requests
    if round > WARM_UP:
        sizes = [each.requests for each in load.points]
        first = (round - 1) * sum(sizes) + sum(sizes[: load.points.index(point)])
    numbers = range(first - fill, first + point.requests)
    return tuple(order[number % len(order)] for number in numbers if order)


def mixed(prompts: Iterable[Prompt]) -> tuple[Prompt, ...]:
    """The prompts in a fixed random order, in which each stretch has its share of each class.

    It is stratified sampling: the i-th of a class's n shuffled prompts has a random position in the
    i-th of n equal parts of the order.
    """
    by_class: defaultdict[str, list[Prompt]] = defaultdict(list)
    for member in prompts:
        by_class[member.prompt_class].append(member)
    positions: list[tuple[float, str, Prompt]] = []
    for name, members in by_class.items():
        # random() is the one method whose values stay the same over versions of Python.
        chance = random.Random(f"{_SEED}: {name}")
        shuffled = sorted(members, key=lambda _: chance.random())
        positions += [
            ((number + chance.random()) / len(members), member.name, member)
            for number, member in enumerate(shuffled)
        ]
    return tuple(member for *_, member in sorted(positions, key=lambda entry: entry[:2]))
