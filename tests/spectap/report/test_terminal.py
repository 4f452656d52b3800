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

from spectap.errors import ConfigError
from spectap.ledger import read_ledger
from spectap.report import results, terminal
from tests.spectap import generated_runs as generated

CONFIG = generated.config()
MINUS = "\N{MINUS SIGN}"
LINES = generated.ledger(CONFIG)


def rows(text: str, name: str, variants: int = 2) -> list[str]:
    """The lines of a test case: one for each variant."""
    lines = text.splitlines()
    first = next(n for n, line in enumerate(lines) if line.startswith(name) and " Base " in line)
    return lines[first : first + variants]


def unwrapped(text: str) -> str:
    """The text without its line ends."""
    return " ".join(text.split())


def tables(text: str) -> list[str]:
    """The tables of a text, each from its heads to the rule that ends it."""
    rules = [n for n, line in enumerate(text.splitlines()) if line.startswith("───")]
    return [
        "\n".join(text.splitlines()[head - 2 : end])
        for head, end in zip(rules[::2], rules[1::2], strict=True)
    ]


def measured(line: str) -> list[str]:
    """The words of a line from the variant's name to its errors, without the cost."""
    words = line.split()
    start = next(number for number, word in enumerate(words) if word in ("Base", "SD"))
    return [word for word in words[start : words.index("0/24") + 1] if not word.startswith("$")]


def test_whole_run(tmp_path: Path) -> None:
    text = terminal.render(generated.write(tmp_path, CONFIG, LINES))
    base, speculative = rows(text, "repetition")
    assert speculative.split()[:2] == ["structured", "SD"]
    assert re.search(rf" 2\.7x  \d\.\d-\d\.\d +3\.0x  {MINUS}6\d %$", speculative)
    assert base.endswith(" 0/24")
    assert "SD is 2.7x faster for one request" in text
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
    assert re.search(rf" 1\.\d+x  \S+ +1\.\d+x  {MINUS}\d\d %$", three)
    assert seven.split()[0] == "k7"
    assert re.search(rf" 2\.\d+x  \S+ +3\.\d+x  {MINUS}\d\d %$", seven)
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


def test_cost_has_a_column_beside_the_speed_up(tmp_path: Path) -> None:
    text = terminal.render(generated.write(tmp_path, CONFIG, LINES))
    (table,) = tables(text)
    assert table.splitlines()[1].endswith("speed-up, 95 %    decoding  a token")
    _, undecided = rows(text, "open-ended")
    assert re.search(r" [01]\.\d\dx\? \S+ +[01]\.\d\dx +\S+ %\?$", undecided)
    assert '"?": no difference is proven for this load alone, among all claims' in unwrapped(text)
    assert "one after the other" not in unwrapped(text)


def test_without_a_price_the_tokens_a_second_are_compared(tmp_path: Path) -> None:
    text = terminal.render(generated.write(tmp_path, CONFIG | {"cost": None}, LINES))
    (table,) = tables(text)
    assert table.splitlines()[1].endswith("speed-up, 95 %    decoding  tokens/s")
    assert re.search(r" 2\.\dx$", rows(text, "repetition")[1])


def test_where_speed_and_cost_part(tmp_path: Path) -> None:
    """One request of each wave keeps the hardware busy, while the others are done."""
    lines = [
        generated.slowed(line, 12)
        if line["variant"] == "SD" and line["request"].endswith("-0")
        else line
        for line in LINES
    ]
    text = terminal.render(generated.write(tmp_path, CONFIG, lines))
    assert re.search(r" 2\.\dx .* \+\d\d %$", rows(text, "repetition")[1])
    assert "keep it on only where speed counts more." in unwrapped(text)


def test_one_number_for_each_class_of_several_cases(tmp_path: Path) -> None:
    text = terminal.render(generated.write(tmp_path, CONFIG, LINES))
    (line,) = (line for line in text.splitlines() if line.startswith("SD over "))
    number = r"\d\.\dx \(\d\.\d-\d\.\d\)"
    change = rf"{MINUS}\d\d %"
    cost = rf"{change} \({MINUS}\d\d to {change}\)"
    expected = f"SD over 2 structured test cases: {number} for one request, cost of a token {cost}"
    assert re.fullmatch(expected, line)
    assert "of these test cases, not of prompts in general" in unwrapped(text)


def test_a_rehearsal_says_so_first(tmp_path: Path) -> None:
    configuration = CONFIG | {"stand_in": "golden endpoints"}
    text = terminal.render(generated.write(tmp_path, configuration, LINES))
    assert text.startswith("Rehearsal of article: SD against Base")
    assert "keep it on" not in text


def test_a_range_of_rounds_is_in_the_heading(tmp_path: Path) -> None:
    configuration = generated.config(
        rounds={"at_least": 4, "at_most": 30, "half_width": 0.05}, output_tokens=10
    )
    text = terminal.render(generated.write(tmp_path, configuration, []))
    assert "4 to 30 rounds of 4 requests per case and variant" in unwrapped(text)


def test_an_unfinished_cell_has_neither_verdict_nor_cost(tmp_path: Path) -> None:
    lines = [
        line
        for line in LINES
        if (line["case"], line["variant"], line["round"]) != ("counting", "SD", 6)
    ]
    text = terminal.render(generated.write(tmp_path, CONFIG, lines))
    base, speculative = rows(text, "counting")
    assert "$" in base
    assert "$" not in speculative
    assert re.search(r"0/20 +no verdict +-$", speculative)


def test_no_line_breaks_between_a_number_and_its_per_cent_sign(tmp_path: Path) -> None:
    run = results.read(generated.write(tmp_path, CONFIG, LINES))
    for columns in range(80, 121):
        text = terminal.render_results(run, columns)
        assert not [line for line in text.splitlines() if line.lstrip().startswith("%")]


def test_ledgers_without_a_configuration(tmp_path: Path) -> None:
    folder = generated.write(tmp_path, CONFIG, LINES)
    whole = terminal.render(folder)
    text = terminal.render_ledgers(read_ledger(folder / "ledger.jsonl"))
    assert text.startswith("SD against Base: 144 requests, 2026-05-28 20:26 to 20:28 UTC\n")
    for name in ("repetition", "counting", "open-ended"):
        for line, known in zip(rows(text, name), rows(whole, name), strict=True):
            # The tokens a second of all together differ: the concurrency is not known.
            assert without(5, measured(line)) == without(5, measured(known))
    assert "USD" not in text


def without(place: int, texts: list[str]) -> list[str]:
    return [*texts[:place], *texts[place + 1 :]]


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
    assert "Load: the built-in driver, not llmperf" in terminal.render(tmp_path)
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
    assert re.search(r"24/24 +no verdict +-$", speculative)
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
