"""What is printed: text of others as text, and colours that differ."""

import io
import unicodedata
from typing import Final

from hypothesis import given
from hypothesis import strategies as st

from spectap import wording
from spectap.protocol.events import clean
from spectap.report import palette
from spectap.run.progress import Progress

HOSTILE: Final = "a\x1b[2Jb\x9b1mc\x7fd\u202ee\rf\ud800"
HARMLESS: Final = "a\ufffd[2Jb\ufffd1mc\ufffdd\ufffde\ufffdf\ufffd"


@given(st.text(st.characters(exclude_characters="\t")))
def test_nothing_that_controls_a_terminal_is_printed(text: str) -> None:
    printed = wording.printable(text)
    assert len(printed) == len(text)
    for before, after in zip(text, printed, strict=True):
        assert after == before or (not before.isprintable() and after == "\ufffd")
        assert unicodedata.category(after) not in ("Cc", "Cs", "Zl", "Zp")
        assert not unicodedata.bidirectional(after).endswith(("E", "O", "I", "F"))
    printed.encode()


def test_a_run_shows_what_others_sent_as_text() -> None:
    assert wording.printable_lines(f"{HOSTILE}\nx") == f"{HARMLESS}\nx"
    assert clean("\x1b]0;title\x07 \n" + "x" * 999) == "\ufffd]0;title\ufffd " + "x" * 188 + "…"
    stream = io.StringIO()
    Progress(1, stream=stream).say(f"{HOSTILE}\nx")
    assert stream.getvalue() == f"[0/1] {HARMLESS}\ufffdx\n"


def luminance(colour: str) -> float:
    encoded = [int(colour[start : start + 2], 16) / 255 for start in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in encoded]
    return sum(share * c for share, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def test_each_is_legible_as_text_and_no_two_variants_look_alike() -> None:
    light, dark = map(luminance, palette.PAPER)
    for colour in palette.ALL:
        assert (light + 0.05) / (luminance(colour.light) + 0.05) >= 4.5
        assert (luminance(colour.dark) + 0.05) / (dark + 0.05) >= 4.5
    colours = palette.of(f"k{number}" for number in range(32))
    assert len({(colour.light, colour.marker) for colour in colours.values()}) == 32
    assert list(palette.of(["Base", "SD"]).values()) == list(palette.ALL[:2])
