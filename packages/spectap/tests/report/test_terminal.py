"""The view in a terminal, and where there is none."""

import contextlib
import pty
import re
import sys
import termios
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from io import FileIO
from pathlib import Path

import pytest

from spectap.report import run_view, terminal
from spectap.report.results import Results
from spectap.report.view import Columns, Row, Table, View
from tests import generated_runs as generated
from tests.report import runs


def rows(text: str) -> list[list[str]]:
    """The words of the lines of test cases, in all tables one after the other."""
    cell = re.compile("(repetition|counting|open-ended) {2}")
    return [line.split() for line in text.splitlines() if cell.match(line)]


@pytest.fixture(scope="module")
def failing(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run with long names in which requests failed, its ledger torn."""
    cases = [(name * 64, "structured", True) for name in "abc"]
    content = generated.config(cases, rounds=3, output_tokens=20)
    lines = [
        generated.fail(line, "unfortunately " * 20) if number % 20 == 19 else line
        for number, line in enumerate(generated.ledger(content))
    ]
    return generated.write(tmp_path_factory.mktemp("failing"), content, lines, torn=True)


def test_where_there_is_no_terminal_nothing_is_wrapped_coloured_or_cut(failing: Path) -> None:
    printed = terminal.render(failing)
    assert (
        printed.index("SD requests failed") < printed.index("TPOT p50") < printed.index("is torn")
    )
    assert "\x1b" not in printed
    [answer] = [line for line in printed.splitlines() if "SD answers 1.96x as fast" in line]
    assert len(answer) > terminal.WIDTH


@pytest.mark.parametrize("columns", [40, 80, 119, 120, 140])
def test_it_fits_into_a_terminal(failing: Path, columns: int) -> None:
    lines = terminal.render(failing, columns).splitlines()
    assert max(map(len, lines)) <= max(80, min(columns, 120))
    assert not [line for line in lines if line.lstrip().startswith("%")]


def test_a_narrow_terminal_gets_all_of_it_in_several_tables(comparison: Results) -> None:
    view = run_view.of_run(comparison)
    wide, narrow = (rows(terminal.text(view, columns)) for columns in (120, 80))
    assert 2 * len(wide) == len(narrow) == 6
    for cells, first, second in zip(wide, narrow[:3], narrow[3:], strict=True):
        assert Counter(first) + Counter(second) == Counter(cells) + Counter(cells[:1])


def test_the_article_fits_a_screen_and_more_is_shown_where_it_is_asked_for(tmp_path: Path) -> None:
    """Ten test cases, with five of the notes."""
    cases = [(f"case-{number}", "structured", True) for number in range(10)]
    run = runs.read(tmp_path, generated.config(cases) | {"stand_in": "golden endpoints"})
    view = run_view.of_run(replace(run, notes=tuple(f"note {number}." for number in range(7))))
    text, verbose = (terminal.text(view, 120, verbose=verbose) for verbose in (False, True))
    assert len(text.splitlines()) < 38
    assert len(text.split()) < 600
    assert [f"note {number}." in text for number in range(7)] == [True] * 5 + [False] * 2
    assert "note 6." in verbose
    assert ["Speed-ups, 95 %" in each for each in (text, verbose)] == [False, True]


def test_what_others_wrote_neither_controls_the_terminal_nor_is_markup_nor_is_cut() -> None:
    hostile = "\x1b[2J[red]\u202e\nname" + "x" * 300
    row = Row((hostile,), ((hostile,),))
    table = Table(hostile, (hostile,), (Columns(hostile, (hostile,)),), ((row,),))
    view = View(hostile, (hostile,), tables=((table, (hostile,)),))
    for columns in (80, None):
        printed = terminal.text(view, columns)
        assert not set("\x1b\u202e") & set(printed)
        assert printed.count("[red]") == 9
        assert "x" * 300 in printed
        assert not any(line.startswith("name") for line in printed.splitlines())


@pytest.mark.parametrize("columns", [93, 200])
def test_a_terminal_is_asked_for_its_width_and_gets_colour(
    monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    parent, child = pty.openpty()
    view = View("title " * 40, answers=("the [red]headline",), alarms=("worse",))
    with open(parent, "rb", buffering=0) as written, open(child, "w") as screen:
        termios.tcsetwinsize(child, (24, columns))
        monkeypatch.setattr(sys, "stdout", screen)
        monkeypatch.setattr(sys, "__stdout__", screen)
        terminal.show(view)
        screen.close()
        printed = b"".join(_chunks(written)).decode()
    assert "\x1b[1mthe [red]headline" in printed
    assert "\x1b[1;31mANSWERS GOT WORSE" in printed
    plain = re.sub(r"\x1b\[[\d;]*m", "", printed)
    assert min(columns, 120) - 6 < max(map(len, plain.splitlines())) <= min(columns, 120)


def _chunks(written: FileIO) -> Iterator[bytes]:
    """What was written to a terminal whose other end is closed."""
    with contextlib.suppress(OSError):
        while chunk := written.read(4000):
            yield chunk
