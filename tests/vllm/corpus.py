"""Conversations to train the pair on: what a test case asks, and an answer of its kind.

A structured case is answered with what is predictable: repetition, counting, records, code. An
open-ended one with made-up words drawn one by one, where nobody can know the next.
"""

import random
from collections.abc import Iterator, Sequence
from itertools import count, cycle, product
from typing import Final, NamedTuple

from spectap.protocol import text

BEGIN: Final = "<|im_start|>"
END: Final = "<|im_end|>"

TEMPLATE: Final = (
    "{% for message in messages %}"
    f"{BEGIN}{{{{ message.role }}}}\n{{{{ message.content }}}}{END}\n"
    "{% endfor %}"
    f"{{% if add_generation_prompt %}}{BEGIN}assistant\n{{% endif %}}"
)
"""The pair's chat template, in the form of Qwen3's: turns between the same two marks."""

_CHARACTERS: Final = (200, 420)
"""Of a prompt, from and to: the shortest and the longest that a load of this size asks for."""

# A word of one group is followed by any of the next. If any word could follow, who always takes
# the likeliest would soon say one word over and over, and nothing is easier to predict.
_WORDS: Final = tuple(map("".join, product("bdfglmnrst", "aeiou", "dklmn")))
_GROUPS: Final = tuple(_WORDS[start::12] for start in range(12))

Turns = Sequence[tuple[str, str]]
"""Roles and what they say."""


class Case(NamedTuple):
    """A test case as far as its text goes.

    ``line`` None stands for the driver's own text. Where there are ``prompts``, they are sent as
    they are.
    """

    line: str | None
    structured: bool
    prompts: Sequence[Turns] = ()


def conversations(cases: Sequence[Case], seed: int, characters: int) -> Iterator[tuple[str, str]]:
    """Prompts, rendered up to where the answer begins, and answers, without end.

    An answer is at least ``characters`` long. Equal arguments, equal conversations.
    """
    chance = random.Random(seed)
    while True:
        case = chance.choice(cases)
        yield _rendered(_turns(chance, case)), _answer(chance, case, characters)


def _turns(chance: random.Random, case: Case) -> Turns:
    if case.prompts:
        return chance.choice(case.prompts)
    lines = text.filling_lines(case.line)
    prompt = text.filled_prompt(
        chance, lines, chance.randint(*_CHARACTERS), chance.randint(20, 200)
    )
    # The driver's requests carry an empty system message, as llmperf's.
    return ("system", ""), ("user", prompt)


def _rendered(turns: Turns) -> str:
    said = "".join(f"{BEGIN}{role}\n{text}{END}\n" for role, text in turns)
    return f"{said}{BEGIN}assistant\n"


def _answer(chance: random.Random, case: Case, characters: int) -> str:
    pieces, answer = _pieces(chance, case), ""
    while len(answer) < characters:
        answer += next(pieces)
    return answer


def _pieces(chance: random.Random, case: Case) -> Iterator[str]:
    """Of an answer, without end. A word of the line says what it asks for."""
    if not case.structured:
        for group in cycle(_GROUPS):
            yield f"{chance.choice(group)} "
    line = (case.line or "").strip()
    for number in count(1):
        if "json" in line.lower():
            yield f'{{"id": {number}, "name": "item", "tags": ["a", "b"], "valid": true}}\n'
        elif case.prompts or "python" in line.lower():
            yield f"def function_{number}(value):\n    return value + {number}\n\n"
        elif "number" in line.lower() or "count" in line.lower():
            yield f"{number} "
        else:
            yield f"{line}\n"
