"""What others sent reaches the terminal as text, and never as a command to it."""

from __future__ import annotations

import io
import unicodedata
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deployment.console import Console, print_table
from spectap import printing
from spectap.run.progress import Progress
from spectap.tap.token_meter import clean

HOSTILE: Final = "a\x1b[2Jb\x9b1mc\x7fd\u202ee\rf\ud800"
HARMLESS: Final = "a\ufffd[2Jb\ufffd1mc\ufffdd\ufffde\ufffdf\ufffd"


@given(st.text(st.characters(exclude_characters="\t")))
def test_nothing_that_controls_a_terminal_is_printed(text: str) -> None:
    printed = printing.printable(text)
    assert len(printed) == len(text)
    for before, after in zip(text, printed, strict=True):
        assert after == before or (not before.isprintable() and after == "\ufffd")
        assert unicodedata.category(after) not in ("Cc", "Cs", "Zl", "Zp")
        assert not unicodedata.bidirectional(after).endswith(("E", "O", "I", "F"))
    printed.encode()


def test_a_line_stays_one_line_where_one_is_expected() -> None:
    forged = f"{HOSTILE}\nbenchmark: all is well"
    assert printing.printable(forged) == f"{HARMLESS}\ufffdbenchmark: all is well"
    assert printing.printable_lines(forged) == f"{HARMLESS}\nbenchmark: all is well"
    assert clean("\x1b]0;title\x07") == "\ufffd]0;title\ufffd"


def test_a_run_and_a_stage_show_what_others_sent_as_text(
    capsys: pytest.CaptureFixture[str],
) -> None:
    stream = io.StringIO()
    Progress(1, stream=stream).say(f"{HOSTILE}\nx")
    Console(1, stream).say(f"{HOSTILE}\nx")
    assert stream.getvalue() == f"[0/1] {HARMLESS}\ufffdx\n      {HARMLESS}\ufffdx\n"
    with Console(1, stream).stage("results") as stage:
        stage.result = f"{HOSTILE}\nx"
    assert f"{HARMLESS}\ufffdx, " in stream.getvalue()
    print_table([("run", f"{HOSTILE}\nrun", "x")])
    assert capsys.readouterr().out == f"run  {HARMLESS}\ufffdrun  x\n"
