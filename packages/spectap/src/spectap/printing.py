"""Text of servers, buckets and pods, made safe to print.

An escape sequence in a name, an error or a log could clear the screen, forge a line or change a
window's title.
"""

import re
from typing import Final

_CONTROLS: Final = re.compile(
    r"[\x00-\x08\x0a-\x1f\x7f-\x9f"  # C0 but the tab, DEL, C1
    r"\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # what changes the direction of writing
    r"\u2028\u2029\ud800-\udfff]"  # line separators; halves of characters, which cannot be encoded
)
_SECRET: Final = 8
"""The characters by which a secret is recognised: a shorter one is none, such as "none"."""
_REPLACEMENT: Final = "\N{REPLACEMENT CHARACTER}"


def printable(text: str) -> str:
    """The text as one line, in which each character that controls a terminal is replaced."""
    return _CONTROLS.sub(_REPLACEMENT, text)


def masked(text: str, secret: str) -> str:
    """The text without a secret that a server repeats in it, whole or cut off."""
    if len(secret) < _SECRET:
        return text
    return re.sub(re.escape(secret[:_SECRET]) + r"[^\s\"'<>,;]*", "***", text)


def printable_lines(text: str) -> str:
    """Makes a text that may have several lines printable."""
    return "\n".join(map(printable, text.split("\n")))
