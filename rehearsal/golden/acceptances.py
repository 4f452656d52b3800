"""How likely a draft is accepted: by the structure of a test case's line, or the prompt's class.

With the article's models and window, structures make the article's speed-ups: 3 where a
continuation is predictable, 1 where it is not.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from experiment import Experiment
from rehearsal.prompts import prompts_of
from spectap.config import Structure
from spectap.prompt import Prompt

OF_STRUCTURE: Final[Mapping[Structure, float]] = {
    Structure.STRUCTURED: 0.97,
    Structure.OPEN_ENDED: 0.52,
}

OF_CLASS: Final[Mapping[str, float]] = {
    "coding": 0.9,
    "extraction": 0.88,
    "math": 0.84,
    "reasoning": 0.75,
    "stem": 0.7,
    "humanities": 0.65,
    "writing": 0.58,
    "roleplay": 0.52,
}
"""In the order in which published measurements have them: code first, free writing last."""
_OTHERS: Final = (0.5, 0.95)
_SPREAD: Final = 0.05
"""Standard deviation between the prompts of a class."""

# A prompt is filled with its line and then cut. It certainly holds the line's beginning.
_CERTAIN_CHARACTERS: Final = 40


def of_class(name: str) -> float:
    """The acceptance of a class; of one that is not known, any that its name alone decides."""
    return OF_CLASS.get(name, random.Random(name).uniform(*_OTHERS))


def by_text(experiment: Experiment) -> dict[str, float]:
    """Acceptance by the text that a golden endpoint recognises a prompt by.

    The first text that a prompt contains counts. Prompts are filled with the line of their test
    case, so the text is that line or its beginning; those of sets are sent as they are. The longest
    texts come first, because one may begin like another. Raises RehearsalError.
    """
    known: dict[str, float] = {}
    for case in experiment.benchmark.test_cases:
        if not case.is_line:
            known |= _of_prompts(prompts_of(experiment, case))
        elif case.line is not None and case.structure is not None:
            text = ("\n" + case.line.rstrip("\n") + "\n")[:_CERTAIN_CHARACTERS]
            known[text] = OF_STRUCTURE[case.structure]
    return {text: known[text] for text in sorted(known, key=len, reverse=True)}


def _of_prompts(prompts: Iterable[Prompt]) -> dict[str, float]:
    found = {}
    for prompt in prompts:
        chance = random.Random(prompt.name)
        rate = chance.gauss(of_class(prompt.prompt_class), _SPREAD)
        for text in list(_texts(prompt))[-1:]:  # what it ends with is its own
            found[text] = min(0.98, max(0.05, rate))
    return found


def _texts(prompt: Prompt) -> Iterator[str]:
    for message in prompt.messages:
        content = message.get("content") or ""
        if isinstance(content, str) and content.strip():
            yield content.strip()
