"""What reaches a terminal or a log: ``from benchmark.printing import print``.

Names, error texts and logs are often a server's, a bucket's or a pod's. An escape sequence among
them could clear the screen, forge a line or change a window's title.
"""

from __future__ import annotations

import builtins
import re
from typing import Final, TextIO

_CONTROLS: Final = (
    r"\x00-\x08\x0b-\x1f\x7f-\x9f"  # C0 but tab and newline, DEL, C1
    r"\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # what changes the direction of writing
    r"\u2028\u2029\ud800-\udfff"  # line separators; halves of characters, which cannot be encoded
)
_IN_LINES: Final = re.compile(f"[{_CONTROLS}]")
_IN_A_LINE: Final = re.compile(rf"[{_CONTROLS}\n]")
_REPLACEMENT: Final = "\N{REPLACEMENT CHARACTER}"
_CLEAR_LINE: Final = "\r\x1b[2K"


def printable(text: str) -> str:
    """The text as one line, in which each character that controls a terminal is replaced."""
    return _IN_A_LINE.sub(_REPLACEMENT, text)


def print(
    *values: object,
    sep: str = " ",
    end: str = "\n",
    file: TextIO | None = None,
    flush: bool = False,
) -> None:
    """Python's own, which replaces what controls a terminal, but for newlines and tabs."""
    text = _IN_LINES.sub(_REPLACEMENT, sep.join(map(str, values)))
    builtins.print(text, end=end, file=file, flush=flush)


def redraw(text: str, stream: TextIO) -> None:
    """Shows a text in place of the terminal's last line."""
    stream.write(_CLEAR_LINE + printable(text))
    stream.flush()
