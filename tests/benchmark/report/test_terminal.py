"""The table for the terminal."""

from __future__ import annotations

import os
import pty
import re
import sys
import termios
from collections import Counter
from pathlib import Path

import pytest

from benchmark.errors import ConfigError
from benchmark.ledger import read_ledger
from benchmark.report import results, terminal
from tests.benchmark import generated_runs as generated

CONFIG = generated.config()
LINES = generated.ledger(CONFIG)


def rows(text: str, name: str, variants: int = 2) -> list[str]:
    """The lines of a test case: one for each variant."""
    lines = text.splitlines()
    first = next(n for n, line in enumerate(lines) if line.startswith(name) and " Base " in line)
    return lines[first : first + variants]


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
    assert speculative.split()[:2] == ["structured", "SD"]
    assert re.search(r" 3\.0x  \d\.\d-\d\.\d$", speculative)
    assert base.endswith(" 0/24")
    assert "SD is 3.0x faster here" in text
    assert "article: SD against Base, on Qwen/Qwen3-32B at concurrency 4" in text
    assert "rate" not in text.replace("decorate", "")


def test_a_line_for_each_variant(tmp_path: Path) -> None:
    configuration = generated.config(variants=generated.TWO_WINDOWS)
    text = terminal.render(
        generated.write(tmp_path, configuration, generated.ledger(configuration))
    )
    base, three, seven = rows(text, "repetition", variants=3)
    assert "x  " not in base
    assert three.split()[:2] == ["structured", "k3"]
    assert re.search(r" 1\.\d+x  \S+$", three)
    assert seven.split()[0] == "k7"
    assert re.search(r" 3\.\d+x  \S+$", seven)
    (table,) = tables(text)
    assert table.count(" k3 ") == table.count(" k7 ") == table.count(" Base ") == 3


def test_a_variant_alone_has_no_speed_up(tmp_path: Path) -> None:
    configuration = generated.config(variants=generated.ARTICLE[:1])
    text = terminal.render(
        generated.write(tmp_path, configuration, generated.ledger(configuration))
    )
    (base,) = rows(text, "repetition", variants=1)
    assert "0/24" in base
    assert "speed-up" not in text
    assert "verdict" not in text


def test_without_a_price_there_is_no_cost(tmp_path: Path) -> None:
    text = terminal.render(generated.write(tmp_path, CONFIG | {"cost": None}, LINES))
    assert "USD" not in text
    assert "$" not in text


def test_ledgers_without_a_configuration(tmp_path: Path) -> None:
    folder = generated.write(tmp_path, CONFIG, LINES)
    whole = terminal.render(folder)
    text = terminal.render_ledgers(read_ledger(folder / "ledger.jsonl"))
    assert text.startswith("SD against Base: 144 requests, 2026-05-28 20:26 to 20:28 UTC\n")
    for name in ("repetition", "counting", "open-ended"):
        for line, known in zip(rows(text, name), rows(whole, name), strict=True):
            kept = [word for word in known.split() if not word.startswith("$")]
            # Nobody knows the structure of the prompts.
            assert line.split() == kept[-len(line.split()) :]
            assert len(kept) - len(line.split()) <= 1
    assert "USD" not in text


def test_a_ledger_without_a_request() -> None:
    assert terminal.render_ledgers([]).startswith("There is no request")


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


def test_long_names_of_variants_fit_too(tmp_path: Path) -> None:
    variants = [generated.ARTICLE[0]] + [
        {**generated.ARTICLE[1], "name": f"{window}-" + "v" * 60} for window in range(1, 4)
    ]
    configuration = generated.config(variants=variants, requests=4, rounds=2)
    lines = generated.ledger(configuration)
    run = results.read(generated.write(tmp_path, configuration, lines))
    for columns in (80, 120):
        text = terminal.render_results(run, columns)
        assert max(map(len, text.splitlines())) == columns
        for table in tables(text):
            assert all(table.count(f" {window}-vvvvv") == 3 for window in range(1, 4))


def test_a_narrow_terminal_gets_all_of_it_in_two_tables(tmp_path: Path) -> None:
    run = results.read(generated.write(tmp_path, CONFIG, LINES))
    (whole,) = tables(terminal.render_results(run, 120))
    first, second = tables(terminal.render_results(run, 80))
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
    assert base.endswith("0/24")
    assert re.search(r"24/24 +no verdict$", speculative)
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
    assert base.split()[-3] == "-"


def test_without_a_configuration(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"config\.json"):
        terminal.render(tmp_path)
