"""The view in a terminal, and where there is none."""

from __future__ import annotations

import contextlib
import os
import pty
import re
import sys
import termios
from collections import Counter
from collections.abc import Iterator
from io import FileIO
from pathlib import Path

import pytest

from spectap.errors import ConfigError
from spectap.report import results, run_view, terminal
from spectap.report.results import Results
from spectap.report.view import Columns, Row, Section, Table, View
from tests.spectap import generated_runs as generated
from tests.spectap.report import laddered

CONFIG = generated.config()
LINES = generated.ledger(CONFIG)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Results:
    return results.read(generated.write(tmp_path_factory.mktemp("run"), CONFIG, LINES))


def text(of: Results, columns: int | None = None) -> str:
    return terminal.text(run_view.of_run(of), columns)


def rows(text: str) -> list[list[str]]:
    """The words of the lines of cells, in all tables one after the other."""
    cell = re.compile(r"(?:\s*[\w./-]+)?\s+(Base|SD) {2}")
    return [line.split() for line in text.splitlines() if cell.match(line)]


def test_what_decides_stands_before_the_numbers(tmp_path: Path) -> None:
    failing = [
        generated.fail(line) if number % 20 == 19 else line for number, line in enumerate(LINES)
    ]
    folder = generated.write(tmp_path, CONFIG, failing, torn=True)
    said = terminal.render(folder)
    order = [
        "article: SD against Base, on Qwen/Qwen3-32B at concurrency 4",
        "SD: requests faster in",
        "SD requests failed",
        "TPOT ms",
        "repetition: SD is ",
        "By class of test case",
        "is torn",
        "TPOT is the true time per output token.",
        "USD: $35.76 an hour",
    ]
    places = [said.index(part) for part in order]
    assert places == sorted(places)


def test_worse_answers_stand_before_the_numbers(tmp_path: Path) -> None:
    said = text(laddered.with_prompts(laddered.run(tmp_path, {1: 0.8}, {0.5: 1.0})), 80)
    lines = said.splitlines()
    assert lines[lines.index("ANSWERS GOT WORSE") + 1].startswith("! repetition: SD's tool calls")
    assert said.index("ANSWERS GOT WORSE") < said.index("TTFT ms")


def test_a_line_for_each_cell_with_its_load(tmp_path: Path) -> None:
    said = text(laddered.run(tmp_path))
    block = said[said.index("\ncounting, structured\n") : said.index("\nopen-ended, open-ended\n")]
    cells = rows(block)
    assert [cell[0] for cell in cells[::2]] == ["1", "2", "4", "8", "0.5/s"]
    assert [cell[0] for cell in cells[1::2]] == ["SD"] * 5
    assert [("q" in cell) for cell in cells] == [False] * 6 + [True] * 2 + [False] * 2


def test_where_there_is_no_terminal_nothing_is_wrapped_coloured_or_cut(
    run: Results, capsys: pytest.CaptureFixture[str]
) -> None:
    terminal.show_run(run)
    said = capsys.readouterr().out
    assert said == text(run)
    assert "\x1b" not in said
    sentences = [line for line in said.splitlines() if line.startswith(("repetition:", "* "))]
    assert all(line.endswith((".", '"')) for line in sentences)
    assert "…" not in said
    assert len(rows(said)) == 6


@pytest.mark.parametrize("columns", [40, 80, 119, 120, 140])
def test_it_fits_into_a_terminal(tmp_path: Path, columns: int) -> None:
    cases = [("a" * 64, "structured", True), ("b" * 64, "open-ended", True)]
    configuration = generated.config(cases, requests=8, rounds=1, output_tokens=4)
    lines = [
        generated.fail(line, "unfortunately " * 20) if number % 3 == 0 else line
        for number, line in enumerate(generated.ledger(configuration))
    ]
    said = text(results.read(generated.write(tmp_path, configuration, lines)), columns)
    assert max(map(len, said.splitlines())) <= max(80, min(columns, 120))
    assert not [line for line in said.splitlines() if line.lstrip().startswith("%")]


def test_a_narrow_terminal_gets_all_of_it_in_several_tables(run: Results) -> None:
    whole = rows(text(run, 120))
    parts = rows(text(run, 80))
    assert len(parts) == 2 * len(whole)
    for number, cells in enumerate(whole):
        group = 3 * (number // 6)
        first, second = parts[group + number], parts[group + number + 6]
        labels = cells[:2]
        assert Counter(first) + Counter(second) == Counter(cells) + Counter(labels)


def test_a_column_wider_than_any_terminal_is_not_cut() -> None:
    long = "x" * 300
    table = Table("", ("name",), (Columns("", ("value",)),), ((Row(("a",), ((long,),)),),))
    view = View("title", (), overview=(Section("", "", (table,)),))
    assert long in terminal.text(view, 80)
    assert long in terminal.text(view)


def test_what_others_wrote_neither_controls_the_terminal_nor_is_markup() -> None:
    hostile = "\x1b[2J[red]\u202e\nname"
    table = Table("", (hostile,), (Columns(hostile, ("n",)),), ((Row((hostile,), (("1",),)),),))
    said = terminal.text(View(hostile, (hostile,), overview=(Section("", hostile, (table,)),)), 80)
    assert not set("\x1b\u202e") & set(said)
    assert said.count("[red]") == 6
    assert not any(line.startswith("name") for line in said.splitlines())


def _chunks(written: FileIO) -> Iterator[bytes]:
    """What was written to a terminal whose other end is closed."""
    with contextlib.suppress(OSError):
        while chunk := written.read(4000):
            yield chunk


@pytest.mark.parametrize("columns", [93, 200])
def test_a_terminal_is_asked_for_its_width_and_gets_colour(
    run: Results, monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    parent, child = pty.openpty()
    view = View("title " * 40, (), headline="the headline")
    with open(parent, "rb", buffering=0) as written, open(child, "w") as screen:
        termios.tcsetwinsize(child, (24, columns))
        monkeypatch.setattr(sys, "stdout", screen)
        monkeypatch.setattr(sys, "__stdout__", screen)
        terminal.show(view)
        screen.close()
        said = b"".join(_chunks(written)).decode()
    assert "\x1b[1mthe headline" in said
    plain = re.sub(r"\x1b\[[\d;]*m", "", said)
    assert min(columns, 120) - 6 < max(map(len, plain.splitlines())) <= min(columns, 120)


def test_a_file_gets_the_full_width(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    with open(os.devnull, "w") as file:
        monkeypatch.setattr(sys, "stdout", file)
        assert terminal.terminal_width() is None


def test_without_a_configuration(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"config\.json"):
        terminal.render(tmp_path)
