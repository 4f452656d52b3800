"""An order in which prompts of all classes come in turn."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterable
from typing import Final

from spectap.prompt import Prompt

_SEED: Final = "an order of prompts"


def mixed(prompts: Iterable[Prompt]) -> tuple[Prompt, ...]:
    """The prompts in a fixed random order in which each stretch has its share of each class.

    A class of n prompts, shuffled, has its i-th at a random place of the i-th of n equal parts of
    the order (stratified sampling). So the first ten of any set have its classes in about the
    set's own proportions, and so has the second ten.
    """
    by_class: defaultdict[str, list[Prompt]] = defaultdict(list)
    for prompt in prompts:
        by_class[prompt.prompt_class].append(prompt)
    placed: list[tuple[float, str, Prompt]] = []
    for name, members in by_class.items():
        # random() is the one method whose values stay the same over versions of Python.
        chance = random.Random(f"{_SEED}: {name}")
        shuffled = sorted(members, key=lambda _: chance.random())
        placed += [
            ((number + chance.random()) / len(members), prompt.name, prompt)
            for number, prompt in enumerate(shuffled)
        ]
    return tuple(prompt for _, _, prompt in sorted(placed, key=lambda one: one[:2]))
