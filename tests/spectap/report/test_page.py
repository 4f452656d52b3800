"""The report: self-contained, well-formed, legible in both colour schemes."""

from __future__ import annotations

import copy
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from spectap.report import figures, page, results, run_view
from spectap.report.page import write_report
from tests.spectap import generated_runs as generated
from tests.spectap.report import laddered

CONFIG = generated.config()
LINES = generated.ledger(CONFIG)
VOID = {"meta", "br", "hr", "img", "input", "link", "use", "path"}


class Structure(HTMLParser):
    """Checks that every element is closed where it should be, and collects the attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str, str]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.attributes += [(tag, name, value or "") for name, value in attrs]

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag


def parsed(html: str) -> Structure:
    structure = Structure()
    structure.feed(html)
    assert structure.open == []
    return structure


def visible(html: str) -> str:
    """The text of a page as it is read: without markup, white space folded."""
    text = re.sub(r"<style>.*?</style>|<[^>]+>", " ", html, flags=re.DOTALL)
    return " ".join(text.replace("\N{WORD JOINER}", "").split())


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Drawn, as the only one in this module."""
    folder = generated.write(tmp_path_factory.mktemp("run"), CONFIG, LINES)
    generated.write_llmperf(folder, LINES)
    write_report(folder)
    return folder


@pytest.fixture(scope="module")
def html(run: Path) -> str:
    return (run / "report.html").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def over_loads(tmp_path_factory: pytest.TempPathFactory) -> str:
    of = laddered.with_prompts(laddered.run(tmp_path_factory.mktemp("ladder")))
    return page.html(run_view.of_run(of))


def test_it_writes_the_report_the_figures_and_the_summary(run: Path, html: str) -> None:
    assert {path.stem for path in run.glob("*.png")} == {"acceptance", "gains", "over-time"}
    summary = json.loads((run / "summary.json").read_text(encoding="utf-8"))
    assert summary["run"] == "article-20260521-0940"
    assert parsed(html).tags.count("figure") == 3
    assert "load by llmperf".replace("load by", "Load:") in visible(html)


def test_it_needs_no_network(html: str) -> None:
    for tag, name, value in parsed(html).attributes:
        assert tag not in {"script", "link", "img", "iframe", "object"}
        if name in {"src", "href", "xlink:href"}:
            assert value.startswith("#")
    assert "@import" not in html
    assert not re.search(r"url\((?!#)", html)


def test_a_browser_runs_and_fetches_nothing_for_it(html: str) -> None:
    """Figures and answers have style attributes; the policy stands before anything it is for."""
    policy = html.index('<meta http-equiv="Content-Security-Policy" content="')
    assert policy < html.index("<title>")
    assert html[policy:].split('"')[3].split("; ") == [
        "default-src 'none'",
        "style-src 'unsafe-inline'",
        "base-uri 'none'",
        "form-action 'none'",
    ]


def test_links_have_targets_and_identifiers_are_unique(html: str, over_loads: str) -> None:
    for text in (html, over_loads):
        attributes = parsed(text).attributes
        identifiers = [value for _, name, value in attributes if name == "id"]
        assert len(identifiers) == len(set(identifiers))
        for _, name, value in attributes:
            if name in ("href", "aria-labelledby"):
                assert value.removeprefix("#") in identifiers


def test_a_reader_hears_what_figures_and_tables_are(html: str) -> None:
    structure = parsed(html)
    labels = [value for tag, name, value in structure.attributes if name == "aria-label"]
    assert len(labels) == 3
    assert labels[1].startswith("Speed-up at concurrency 4. With 95 % intervals")
    heads = structure.tags.count("th")
    assert len([one for one in structure.attributes if one[:2] == ("th", "scope")]) == heads
    assert structure.tags.count("caption") >= 5
    assert structure.attributes.count(("dd", "aria-hidden", "true")) == 3 * 3


def test_it_follows_the_colour_scheme_of_the_page(html: str) -> None:
    assert "@media (prefers-color-scheme: dark)" in html
    for role in ("paper", "ink", "muted", "rule", "variant-1", "variant-8"):
        assert html.count(f"--{role}: #") == 2


def test_verdicts_come_first_then_figures_then_tables(html: str) -> None:
    text = visible(html)
    order = [
        "SD: requests faster in 2 of 3 test cases, undecided in 1; cost less in 2",
        "By class of test case",
        "keep it on.",
        "Speed-up at concurrency 4",
        "TPOT, ms",
        "p90 and p99 have none",
        "Qwen/Qwen3-1.7B",
        "as of 2026-05-21",
        "make report RUN=article-20260521-0940",
    ]
    places = [text.index(part) for part in order]
    assert places == sorted(places)


def test_worse_answers_stand_before_everything_else(over_loads: str) -> None:
    text = visible(over_loads)
    order = ["Answers got worse.", "54 of 60", "By class of test case", "Are the answers still"]
    places = [text.index(part) for part in order]
    assert places == sorted(places)
    assert "<strong>−10.0 (−20.0 to −3.0)</strong>" in over_loads  # noqa: RUF001 (a minus sign)
    for number in range(7):
        assert f"MT-Bench/{number} ({4000 + number:,} tokens with its answer, 2,048 fit)" in text


def test_definitions_are_those_of_what_was_measured(html: str, over_loads: str) -> None:
    for word, alone, ladder in (
        ("Crossover", False, True),
        ("Goodput", False, True),
        ("Load point", False, True),
        ("Throughput together", True, True),
    ):
        assert (f"<dt>{word}</dt>" in html) is alone
        assert (f"<dt>{word}</dt>" in over_loads) is ladder


def test_lines_break_neither_in_an_interval_nor_before_a_per_cent_sign(html: str) -> None:
    sentences = re.findall(r'<div class="sentence">.*?</div>', html, re.DOTALL)
    assert len(sentences) == 3
    for sentence in sentences:
        assert "95\N{NO-BREAK SPACE}% interval" in sentence
        assert not re.search(r"\d-\d|\d %", sentence)


def test_what_others_wrote_is_escaped(tmp_path: Path) -> None:
    """A user, a server, or whoever may write to the bucket."""
    wrote = "\u202e" + r"""<script>alert(1)</script><b onclick="x">&'$\frac{ \1 $_"""
    configuration = copy.deepcopy(generated.config(rounds=4))
    ledger = generated.ledger(configuration)
    configuration |= dict.fromkeys(("experiment", "model", "stand_in"), wrote)
    configuration["settings"] = configuration["load"]["sampling"] = {wrote: wrote}
    configuration["cost"] |= dict.fromkeys(("price_of", "as_of", "denominator"), wrote)
    configuration["variants"][1] |= dict.fromkeys(("runtime", "mode", "draft", "artifact"), wrote)
    first, second, third = configuration["test_cases"]
    first["line"] = third["line"] = wrote
    del second["line"], second["structure"]
    second["prompts"] = {"file": wrote, "classes": [wrote]}
    for number, line in enumerate(ledger):
        line |= {"run": wrote}
        if line["case"] == second["name"]:
            line |= {"prompt": f"{wrote}{number % 4}", "prompt_class": wrote}
        if number % 7 == 0:
            line |= generated.fail(line, wrote)
    path = write_report(generated.write(tmp_path, configuration, ledger))
    text = path.read_text(encoding="utf-8")
    assert text.count("&lt;script&gt;alert(1)&lt;/script&gt;") > 20
    assert "\u202e" not in text
    structure = parsed(text)
    assert {*structure.tags}.isdisjoint({"script", "b"})
    assert not any(name.startswith("on") for _, name, _ in structure.attributes)


def test_of_many_variants_the_findings_are_folded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(figures, "draw", lambda run: ())
    variants = [generated.ARTICLE[0]] + [
        {**generated.ARTICLE[1], "name": f"k{window}", "window": window} for window in range(2, 8)
    ]
    configuration = generated.config(variants=variants, rounds=3, output_tokens=20)
    lines = generated.ledger(configuration)
    run = results.read(generated.write(tmp_path, configuration, lines))
    text = page.html(run_view.of_run(run))
    assert text.count('class="words variant-7">k7</th>') >= 3
    assert "<details><summary>What is found of each variant</summary>" in text


def test_drawing_again_gives_the_same_bytes(run: Path, html: str) -> None:
    before = {path.name: path.read_bytes() for path in run.glob("*.png")}
    assert write_report(run).read_text(encoding="utf-8") == html
    assert {path.name: path.read_bytes() for path in run.glob("*.png")} == before
