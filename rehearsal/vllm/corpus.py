"""Conversations to train the pair on: what a test case asks, and an answer of its kind.

A structured case is answered with what is predictable: repetition, counting, records, code. An
open-ended one with words drawn one by one, where nobody can know the next.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from itertools import cycle
from typing import Final, NamedTuple

from spectap.load import llmperf, requests

BEGIN: Final = "<|im_start|>"
END: Final = "<|im_end|>"

TEMPLATE: Final = (
    "{% for message in messages %}"
    f"{BEGIN}{{{{ message.role }}}}\n{{{{ message.content }}}}{END}\n"
    "{% endfor %}"
    f"{{% if add_generation_prompt %}}{BEGIN}assistant\n{{% endif %}}"
)
"""The pair's chat template, in the form of Qwen3's: turns between the same two marks."""

_WORDS: Final = tuple(
    """
    able again air almost alone amber among answer apple arrow ash autumn away bank barn basket
    bear beside birch bird blue boat bone book bread bridge bright brook brown candle castle cedar
    chair chalk child circle clay clear cliff cloud coal coast cold copper corn cotton cradle crane
    crow crystal dance dark dawn deep deer desert door dove dream dry dusk dust eagle early earth
    east echo edge elm ember empty evening fable far fawn feather fern field fire fish flame flint
    flour fog forest fox frost garden gate gentle ghost glass gold grain grass gray green grove
    harbor harvest hawk hazel heart hill hollow honey horn horse house ice iron island ivory ivy
    jade jar journey juniper kettle kind lake lamp lantern lark late laurel leaf lemon letter light
    lily linen lion little loaf long lost low lunar maple marble marsh meadow mellow mild milk mill
    mint mirror mist moon morning moss mountain narrow near nest never night north oak oat ocean
    olive open orchard otter owl paint paper path pearl pebble pepper pine plain plum pond poppy
    quiet rain raven red reed ridge ring river road robin rope rose rust sage sail salt sand scarlet
    sea seed shade shell shore silent silver sky slow small smoke snow soft song south spark spring
    star stone storm straw stream sugar summer sun swan sweet tall tea thorn thread thunder timber
    tower tree turn valley velvet violet walnut warm water wave west wheat white wild willow wind
    window wine winter wolf wood wool yellow young
    """.split()  # noqa: SIM905 (as a list it would fill a page)
)

_CHARACTERS: Final = (200, 420)
"""Of a prompt, from and to: the shortest and the longest that a load of this size asks for."""

# A word of one group is followed by any of the next. If any word could follow, who always takes
# the likeliest would soon say one word over and over, and nothing is easier to predict.
_GROUPS: Final = tuple(_WORDS[start::12] for start in range(12))

Shape = Callable[[random.Random, str], Iterator[str]]
"""Yields an answer's pieces, which are joined, without end."""


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
    lines = requests.text_lines(None if case.line is None else llmperf.repeated(case.line))
    prompt = requests.filled_prompt(
        chance, lines, chance.randint(*_CHARACTERS), chance.randint(20, 200)
    )
    # The driver's requests carry an empty system message, as llmperf's.
    return ("system", ""), ("user", prompt)


def _rendered(turns: Turns) -> str:
    said = "".join(f"{BEGIN}{role}\n{text}{END}\n" for role, text in turns)
    return f"{said}{BEGIN}assistant\n"


def _answer(chance: random.Random, case: Case, characters: int) -> str:
    line = (case.line or "").strip()
    shape = (_code if case.prompts else _shape(line)) if case.structured else _prose
    answer = ""
    for piece in shape(chance, line):
        answer += piece
        if len(answer) >= characters:
            return answer
    return answer


def _shape(line: str) -> Shape:
    for word, shape in _SHAPES.items():
        if word in line.lower():
            return shape
    return _repetition


def _repetition(_: random.Random, line: str) -> Iterator[str]:
    while True:
        yield f"{line}\n"


def _counting(_: random.Random, line: str) -> Iterator[str]:
    number = 0
    while True:
        number += 1
        yield f"{number} "


def _records(_: random.Random, line: str) -> Iterator[str]:
    number = 0
    while True:
        number += 1
        yield f'{{"id": {number}, "name": "item", "tags": ["a", "b"], "valid": true}}\n'


def _code(_: random.Random, line: str) -> Iterator[str]:
    number = 0
    while True:
        number += 1
        yield f"def function_{number}(value):\n    return value + {number}\n\n"


def _prose(chance: random.Random, _: str) -> Iterator[str]:
    for group in cycle(_GROUPS):
        yield f"{chance.choice(group)} "


_SHAPES: Final[dict[str, Shape]] = {
    "json": _records,
    "python": _code,
    "number": _counting,
    "count": _counting,
}
"""What a line's word asks for; the first that is in it counts. Otherwise the line is repeated."""
