"""Made-up prompts: text of about a length, which llmperf makes in much the same way."""

import random
from typing import Final

CHARACTERS_PER_TOKEN: Final = 4
"""An estimate: the built-in driver has no tokenizer."""

# Shakespeare, sonnet 18: stands in for the text that llmperf brings.
_SONNET: Final = """\
Shall I compare thee to a summer's day?
Thou art more lovely and more temperate:
Rough winds do shake the darling buds of May,
And summer's lease hath all too short a date;
Sometime too hot the eye of heaven shines,
And often is his gold complexion dimm'd;
And every fair from fair sometime declines,
By chance or nature's changing course untrimm'd;
But thy eternal summer shall not fade,
Nor lose possession of that fair thou ow'st;
Nor shall death brag thou wander'st in his shade,
When in eternal lines to time thou grow'st:
So long as men can breathe or eyes can see,
So long lives this, and this gives life to thee.
"""


def text_lines(text: str | None) -> list[str]:
    """The lines that fill the prompts; None stands for the driver's own."""
    return (_SONNET if text is None else text).splitlines(keepends=True)


def filled_prompt(chance: random.Random, lines: list[str], characters: int, length: int) -> str:
    """``characters`` of instruction and shuffled ``lines``, asking for ``length`` tokens.

    It begins like no other, or a server that caches prefixes would skip most of the prefill.
    """
    mark = f"{chance.getrandbits(32):08x}"
    text = f"{mark}: Go on with lines like these until there are {length} tokens:\n\n"
    while len(text) < characters:
        text += "".join(chance.sample(lines, len(lines)))
    return text[:characters]


def estimated_tokens(text: str) -> int:
    """An estimate of the number of tokens."""
    return -(-len(text) // CHARACTERS_PER_TOKEN)
