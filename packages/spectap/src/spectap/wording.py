"""The writing of numbers, times and names, and of others' text, which is made safe to print.

An escape sequence in a server's name, error or log could clear the screen, forge a line or change a
window's title.
"""

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

MISSING: Final = "-"
MINUS: Final = "\N{MINUS SIGN}"
NAME_WIDTH: Final = 20

_PER_CENT: Final = re.compile(r"(?<=\d) (?=%)")
_CONTROLS: Final = re.compile(
    r"[\x00-\x08\x0a-\x1f\x7f-\x9f"  # C0 but the tab, DEL, C1
    r"\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # what changes the direction of writing
    r"\u2028\u2029\ud800-\udfff]"  # line separators; halves of characters, which cannot be encoded
)
_SECRET: Final = 8
"""The characters that identify a secret. A shorter value, such as "none", is not one."""
_REPLACEMENT: Final = "\N{REPLACEMENT CHARACTER}"


def milliseconds(seconds: float | None) -> str:
    """``0.01504`` s as ``15.0``, without the unit."""
    return MISSING if seconds is None else significant(seconds * 1000)


def significant(number: float | None) -> str:
    """The number with at least three significant digits, and without decimals from 1,000 on."""
    if number is None:
        return MISSING
    size = abs(number)
    digits = 0 if size >= 1000 else 1 if size >= 10 else 2 if size >= 1 else 3
    return f"{number:,.{digits}f}"


def dollars(usd: float | None) -> str:
    """A price in US dollars: ``$12.40``."""
    if usd is None:
        return MISSING
    return f"${usd:,.2f}" if usd >= 0.1 else f"${usd:.2g}"


def price(usd: float) -> str:
    """A given price with all of its digits: ``$2.235``, ``$12.40``."""
    return f"${max(f'{usd:,.2f}', f'{usd:,.10g}', key=len)}"


def percent(share: float) -> str:
    """``0.042`` as ``4.2``, ``0.42`` as ``42``, without the sign for per cent."""
    return f"{100 * share:.0f}" if share >= 0.1 else f"{100 * share:.1f}"


def share(value: float, bounds: tuple[float, float] | None) -> str:
    """A share in percent, with its interval if it has one: ``90 % (80-96)``."""
    span = f" ({100 * bounds[0]:.0f}-{100 * bounds[1]:.0f})" if bounds else ""
    return f"{100 * value:.0f} %{span}"


def points(share: float) -> str:
    """A difference of two shares in percentage points, with its sign."""
    text = f"{100 * share:+.1f}"
    return "0.0" if text[1:] == "0.0" else text.replace("-", MINUS)


def unbroken(text: str) -> str:
    """The text with a no-break space before each per cent sign."""
    return _PER_CENT.sub("\N{NO-BREAK SPACE}", text)


def duration(seconds: float) -> str:
    """A duration: ``45 s``, ``10 min``."""
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


def period(started: float, ended: float) -> str:
    """Two moments, given in Unix seconds, as people write them, in UTC."""
    first, last = (datetime.fromtimestamp(moment, UTC) for moment in (started, ended))
    until = f"{last:%H:%M}" if first.date() == last.date() else f"{last:%Y-%m-%d %H:%M}"
    return f"{first:%Y-%m-%d %H:%M} to {until} UTC"


def count(number: int, noun: str) -> str:
    """``1 request``, ``2 launches``, ``24,000 requests``."""
    return f"{number:,} {noun}" + ("" if number == 1 else "es" if noun.endswith("ch") else "s")


def listed(items: Sequence[str]) -> str:
    """``a``, ``a and b``, ``a, b and c``."""
    return " and ".join(phrase for phrase in (", ".join(items[:-1]), *items[-1:]) if phrase)


def short(name: str) -> str:
    """A test case's name in at most ``NAME_WIDTH`` characters."""
    return name if len(name) <= NAME_WIDTH else name[: NAME_WIDTH - 1] + "…"


def printable(text: str) -> str:
    """The text as one line, with each character that controls a terminal replaced."""
    return _CONTROLS.sub(_REPLACEMENT, text)


def masked(text: str, secret: str) -> str:
    """The text with each occurrence of the secret masked, also where the secret is cut off."""
    if len(secret) < _SECRET:
        return text
    return re.sub(re.escape(secret[:_SECRET]) + r"[^\s\\\"'<>,;]*", "***", text)


def printable_lines(text: str) -> str:
    """Makes a text that may have several lines printable."""
    return "\n".join(map(printable, text.split("\n")))
