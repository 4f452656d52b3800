"""The table for the terminal."""

from __future__ import annotations

import os
import pty
import sys
import termios
from collections import Counter
from pathlib import Path

import pytest

from benchmark.errors import ConfigError
from benchmark.report import results, terminal
from tests.benchmark import generated_runs as generated

CONFIG = generated.config()
LINES = generated.ledger(CONFIG)


def rows(text: str, name: str) -> tuple[str, str]:
    """The two lines of a test case: Base and SD."""
    lines = text.splitlines()
    first = next(n for n, line in enumerate(lines) if line.startswith(name) and " Base " in line)
    return lines[first], lines[first + 1]


def tables(text: str) -> list[str]:
    """The tables of a text, each from its heads to the rule that ends it."""
    rules = [n for n, line in enumerate(text.splitlines()) if line.startswith("───")]
    return [
        "\n".join(text.splitlines()[head - 2 : end])
        for head, end in zip(rules[::2], rules[1::2], strict=True)
    ]


def test_whole_run(tmp_path: Path) -> None:
    text = terminal.render(generated.write(tmp_path, CONFIG, LINES))
    base, speculative = rows(text, "repetition")
    assert "3.0x" in base
    assert speculative.split()[:2] == ["structured", "SD"]
    assert speculative.endswith("faster")
    assert "0/24" in base
    assert rows(text, "open-ended")[1].endswith("undecided")
    assert "at concurrency 4" in text
    assert "rate" not in text.replace("decorate", "")


@pytest.mark.parametrize("torn", [False, True])
def test_it_fits_into_the_terminal(tmp_path: Path, torn: bool) -> None:
    cases = [("a" * 64, "structured", True), ("b" * 64, "open-ended", True)]
    configuration = generated.config(cases, requests=400, rounds=1, output_tokens=4)
    lines = [
        generated.fail(line, "unfortunately " * 20) if number % 3 == 0 else line
        for number, line in enumerate(generated.ledger(configuration))
    ]
    run = results.read(generated.write(tmp_path, configuration, lines, torn=torn))
    for columns, width in ((40, 80), (80, 80), (119, 119), (120, 120), (140, 120)):
        text = terminal.render_results(run, columns)
        assert max(map(len, text.splitlines())) == width


def test_a_narrow_terminal_gets_all_of_it_in_two_tables(tmp_path: Path) -> None:
    run = results.read(generated.write(tmp_path, CONFIG, LINES))
    (whole,) = tables(terminal.render_results(run, 120))
    first, second = tables(terminal.render_results(run, 119))
    for name in ("repetition", "counting", "open-ended"):
        lines = zip(*(rows(text, name) for text in (whole, first, second)), strict=True)
        for cells, above, below in ((line.split() for line in three) for three in lines):
            name_and_variant = cells[:2]
            assert above[:2] == below[:2] == name_and_variant
            assert Counter(above) + Counter(below) == Counter(cells) + Counter(name_and_variant)


def test_the_terminal_is_asked_for_its_width(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    parent, child = pty.openpty()
    with open(parent, "rb"), open(child, "w") as screen:
        termios.tcsetwinsize(child, (24, 93))
        monkeypatch.setattr(sys, "stdout", screen)
        monkeypatch.setattr(sys, "__stdout__", screen)
        assert terminal.terminal_width() == 93


def test_a_file_gets_the_full_width(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    with open(os.devnull, "w") as file:
        monkeypatch.setattr(sys, "stdout", file)
        assert terminal.terminal_width() == 120


def test_it_says_who_made_the_load(tmp_path: Path) -> None:
    generated.write(tmp_path, CONFIG, LINES)
    assert "Load: the built-in closed-loop driver" in terminal.render(tmp_path)
    generated.write_llmperf(tmp_path, LINES)
    assert "Load: llmperf" in terminal.render(tmp_path)


def test_errors_are_counted_and_explained(tmp_path: Path) -> None:
    lines = [
        generated.fail(line) if (line["case"], line["variant"]) == ("counting", "SD") else line
        for line in LINES
    ]
    text = terminal.render(generated.write(tmp_path, CONFIG, lines))
    base, speculative = rows(text, "counting")
    assert base.endswith("no verdict")
    assert "24/24" in speculative
    assert "every SD request failed (the server reset the connection)" in text


def test_a_torn_ledger_is_noted(tmp_path: Path) -> None:
    text = terminal.render(generated.write(tmp_path, CONFIG, LINES, torn=True))
    assert "is torn" in text
    assert "The run is not complete" in text


def test_nothing_recorded(tmp_path: Path) -> None:
    text = terminal.render(generated.write(tmp_path, CONFIG, []))
    assert "Base and SD were not measured" in text


def test_cost_names_its_denominator_and_date(tmp_path: Path) -> None:
    text = terminal.render(generated.write(tmp_path, CONFIG, LINES))
    assert "8 of 16 devices of one trn2.48xlarge" in text
    assert "2026-05-21" in text


def test_tokens_per_step_need_a_count_per_chunk(tmp_path: Path) -> None:
    uncounted = [generated.uncounted(line) for line in LINES]
    base, _ = rows(terminal.render(generated.write(tmp_path, CONFIG, uncounted)), "repetition")
    assert base.split()[-5] == "-"


def test_without_a_configuration(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"config\.json"):
        terminal.render(tmp_path)
