"""What others sent reaches the terminal as text, and never as a command to it."""

from __future__ import annotations

import ast
import io
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmark import printing
from benchmark.record import Record
from benchmark.report import terminal
from benchmark.run.console import Progress
from benchmark.tap.token_meter import clean
from deployment.console import Console
from deployment.status.screen import Row, Section, rendered
from tests.synthesis import ROOT

HOSTILE: Final = "a\x1b[2Jb\x9b1mc\x7fd\u202ee\rf\ud800"
HARMLESS: Final = "a\ufffd[2Jb\ufffd1mc\ufffdd\ufffde\ufffdf\ufffd"


@given(st.text(st.characters(exclude_characters="\t\n\r\x7f\x85\xa0\u061c\u200e\u200f")))
def test_nothing_that_controls_a_terminal_is_printed(text: str) -> None:
    shown = io.StringIO()
    printing.print(text, file=shown)
    assert len(shown.getvalue()) == len(text) + 1
    for before, after in zip(text, shown.getvalue(), strict=False):
        assert after == before or (not before.isprintable() and after == "\ufffd")
        assert after.isprintable() or not after.isascii()
    shown.getvalue().encode()


def test_a_line_stays_one_line() -> None:
    assert printing.printable(f"{HOSTILE}\nbenchmark: all is well") == (
        f"{HARMLESS}\ufffdbenchmark: all is well"
    )
    assert clean("\x1b]0;title\x07") == "\ufffd]0;title\ufffd"


def test_a_run_and_a_stage_show_what_others_sent_as_text() -> None:
    shown = io.StringIO()
    Progress(1, stream=shown).say(f"{HOSTILE}\nx")
    Console(1, shown).say(f"{HOSTILE}\nx")
    assert shown.getvalue() == f"[0/1] {HARMLESS}\ufffdx\n      {HARMLESS}\ufffdx\n"
    with Console(1, shown).stage("results") as stage:
        stage.found = f"{HOSTILE}\nx"
    assert f"{HARMLESS}\ufffdx, 0.0 s" in shown.getvalue()
    row = Row(f"{HOSTILE}\nrun", f"{HOSTILE} x")
    (line,) = rendered([Section("run", [row])], 80)
    assert line == f"run       {HARMLESS}\ufffdrun  {HARMLESS.replace(chr(65533) + 'f', ' f')} x"


def test_a_ledger_of_somebody_else_is_shown_as_text() -> None:
    record = Record(
        *("run", f"{HOSTILE}\nvariant", f"{HOSTILE}\ncase", 1, "id", 0.0, 200, None, 1, 2),
        *(True, True, ((0.1, 1), (0.2, 1)), 0.3),
    )
    shown = terminal.render_ledgers([record])
    assert HARMLESS[:5] in shown
    assert printing.printable(shown.replace("\n", "")) == shown.replace("\n", "")
    assert not any(line.startswith(("case", "variant")) for line in shown.split("\n"))


@pytest.mark.parametrize("package", ["benchmark", "deployment", "rehearsal"])
def test_what_prints_does_so_by_the_one_function(package: str) -> None:
    """A pod that is played has a log of its own, which is no terminal."""
    played = ("rehearsal/aws", "rehearsal/offline", "rehearsal/vllm", "rehearsal/account/cache.py")
    for path in (ROOT / package).rglob("*.py"):
        name = path.relative_to(ROOT).as_posix()
        tree = ast.parse(path.read_text(encoding="utf-8"))
        prints = any(isinstance(node, ast.Name) and node.id == "print" for node in ast.walk(tree))
        imported = {
            alias.name
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom) and node.module == "benchmark.printing"
            for alias in node.names
        }
        assert not prints or "print" in imported or name.startswith(played), name
