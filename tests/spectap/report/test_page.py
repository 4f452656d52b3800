"""The report: self-contained, verdicts first, honest about what is not there."""

from __future__ import annotations

import copy
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from spectap.endpoint import greedy
from spectap.endpoint.counters import COUNTERS, Count, Counters
from spectap.endpoint.greedy import Divergence
from spectap.journal import Journal
from spectap.report import figures
from spectap.report.page import write_report
from tests.spectap import generated_runs as generated

CONFIG = generated.config()
LINES = generated.ledger(CONFIG)
VOID = {"meta", "br", "hr", "img", "input", "link", "use", "path"}


class Structure(HTMLParser):
    """Checks that every element is closed where it should be, and collects the attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.attributes: list[tuple[str, str, str]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.attributes += [(tag, name, value or "") for name, value in attrs]

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = generated.write(tmp_path_factory.mktemp("run"), CONFIG, LINES)
    generated.write_llmperf(folder, LINES)
    write_report(folder)
    return folder


@pytest.fixture(scope="module")
def page(run: Path) -> str:
    return (run / "report.html").read_text(encoding="utf-8")


@pytest.fixture
def _without_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    """For tests of the words alone: drawing is what takes the time."""
    monkeypatch.setattr(figures, "draw", lambda run: ())


def visible(page: str) -> str:
    """The text of a page as it is read: without markup, white space folded."""
    text = re.sub(r"<style>.*?</style>|<[^>]+>", " ", page, flags=re.DOTALL)
    return " ".join(text.replace("\N{WORD JOINER}", "").split())


def drawn(folder: Path, lines: list[generated.Line], torn: bool = False, rounds: int = 6) -> str:
    configuration = generated.config(rounds=rounds)
    path = write_report(generated.write(folder, configuration, lines, torn=torn))
    return visible(path.read_text(encoding="utf-8"))


def test_it_writes_the_report_the_figures_and_the_summary(run: Path) -> None:
    assert len(list(run.glob("*.png"))) == 10
    summary = json.loads((run / "summary.json").read_text(encoding="utf-8"))
    assert summary["run"] == "article-20260521-0940"


def test_it_is_well_formed(page: str) -> None:
    structure = Structure()
    structure.feed(page)
    assert structure.open == []
    assert "\ufffd" not in page


def test_it_needs_no_network(page: str) -> None:
    structure = Structure()
    structure.feed(page)
    for tag, name, value in structure.attributes:
        assert tag not in {"script", "link", "img", "iframe", "object"}
        if name in {"src", "href", "xlink:href"}:
            assert value.startswith("#")
    assert "@import" not in page
    assert not re.search(r"url\((?!#)", page)


def test_identifiers_are_unique(page: str) -> None:
    structure = Structure()
    structure.feed(page)
    found = [value for _, name, value in structure.attributes if name == "id"]
    doubled = {value for value in found if found.count(value) > 1}
    assert not doubled


def test_it_follows_the_colour_scheme_of_the_page(page: str) -> None:
    assert "@media (prefers-color-scheme: dark)" in page
    for role in ("paper", "ink", "muted", "rule", "variant-1", "variant-8"):
        assert page.count(f"--{role}: #") == 2


def test_verdicts_come_first_then_figures_then_tables(page: str) -> None:
    text = visible(page)
    order = [
        "SD answers requests faster and costs less in 2 of 3 test cases",
        "By class of test case",
        "keep it on.",
        "End-to-end latency at concurrency 4",
        "Tokens per decoding step",
        "TPOT, ms",
        "Definitions",
        "Qwen/Qwen3-1.7B",
        "as of 2026-05-21",
        "make report RUN=article-20260521-0940",
    ]
    places = [text.index(part) for part in order]
    assert places == sorted(places)


@pytest.mark.usefixtures("_without_figures")
def test_a_case_in_which_sd_is_slower(tmp_path: Path) -> None:
    swap = {"Base": "SD", "SD": "Base"}
    lines = [
        {**line, "variant": swap[line["variant"]]} if line["case"] == "counting" else line
        for line in LINES
    ]
    text = drawn(tmp_path, lines)
    assert (
        "SD answers requests faster and costs less in 1 of 3 test cases, answers requests slower "
        "and costs more in 1; no difference can be told in 1"
    ) in text
    assert "x slower for one request" in text
    assert "turn it off" in text


def test_it_gives_percentiles_definitions_settings_and_the_basis_of_the_cost(page: str) -> None:
    text = visible(page)
    for part in ("p50 p90 p99", "fused, 7 tokens", "$35.76 an hour", "$17.88 an hour"):
        assert part in text
    assert "8 of 16 devices of one trn2.48xlarge" in text
    assert "load by llmperf" in text
    assert "request rate" not in text


def test_throughput_and_cost_have_intervals(run: Path, page: str) -> None:
    text = visible(page)
    assert "Together, 95 % interval" in text
    summary = json.loads((run / "summary.json").read_text(encoding="utf-8"))
    for case in summary["cases"]:
        for cell in case["cells"]:
            speed, usd = (
                cell[f"{name}_interval"]
                for name in ("tokens_per_second", "usd_per_million_output_tokens")
            )
            said = "{point:.1f} ({low:.1f}-{high:.1f})".format(**speed)
            assert f"{said} " + "${point:.2f} (${low:.2f}-${high:.2f})".format(**usd) in text


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
    page = path.read_text(encoding="utf-8")
    assert page.count("&lt;script&gt;alert(1)&lt;/script&gt;") > 20
    assert "\u202e" not in page
    structure = Structure()
    structure.feed(page)
    assert structure.open == []
    assert structure.tags.isdisjoint({"script", "b"})
    assert not any(name.startswith("on") for _, name, _ in structure.attributes)


def test_a_browser_runs_and_fetches_nothing_for_it(page: str) -> None:
    """Figures and answers have style attributes; the policy stands before anything it is for."""
    policy = page.index('<meta http-equiv="Content-Security-Policy" content="')
    assert policy < page.index("<title>")
    content = page[policy:].split('"')[3]
    assert content.split("; ") == [
        "default-src 'none'",
        "style-src 'unsafe-inline'",
        "base-uri 'none'",
        "form-action 'none'",
    ]


@pytest.mark.usefixtures("_without_figures")
def test_three_variants_have_a_line_each_in_every_table(tmp_path: Path) -> None:
    configuration = generated.config(variants=generated.TWO_WINDOWS)
    lines = generated.ledger(configuration)
    path = write_report(generated.write(tmp_path, configuration, lines))
    page = path.read_text(encoding="utf-8")
    structure = Structure()
    structure.feed(page)
    assert structure.open == []
    text = visible(page)
    assert text.startswith("article: k3, k7 against Base")
    assert re.search(
        r"2 variants compared in 3 test cases .* k3 answers requests faster and costs less in "
        r"2; .* k7 answers requests faster and costs less in 2",
        text,
    )
    # Four tables of every variant in three cases, one of what is compared, one of each class.
    for position, amount in ((1, 12), (2, 16), (3, 16)):
        assert page.count(f'<th scope="row" class="variant-{position}">') == amount
    assert page.count('<article class="verdict') == 6
    assert "mode fused, draft Qwen/Qwen3-1.7B, window 3, batch 4" in text


@pytest.mark.usefixtures("_without_figures")
def test_several_baselines_are_named(tmp_path: Path) -> None:
    configuration = generated.config(variants=generated.TWO_BASELINES, rounds=3)
    lines = generated.ledger(configuration)
    path = write_report(generated.write(tmp_path, configuration, lines))
    text = visible(path.read_text(encoding="utf-8"))
    assert "faster than Base for one request" in text
    assert "faster than Base-b8 for one request" in text
    assert "k7 against Base; k7-b8 against Base-b8" in text


@pytest.mark.usefixtures("_without_figures")
def test_a_baseline_alone_without_a_price(tmp_path: Path) -> None:
    configuration = generated.config(variants=generated.ARTICLE[:1]) | {"cost": None}
    lines = [
        generated.fail(line) if line["request"] == "counting-Base-1-0" else line
        for line in generated.ledger(configuration)
    ]
    path = write_report(generated.write(tmp_path, configuration, lines))
    text = visible(path.read_text(encoding="utf-8"))
    assert "Base in 3 test cases" in text
    assert "Base: 1 of 24 requests failed" in text
    # Beside the definitions, which say what they would be.
    tables = text[: text.index("Definitions")]
    for word in ("Verdict", "Speed-up", "USD", "$", "By class"):
        assert word not in tables
    assert "What the cost rests on" not in text


def test_one_variant_missing(tmp_path: Path) -> None:
    text = drawn(tmp_path, [line for line in LINES if line["variant"] == "SD"])
    assert "SD has no verdict in 3 of 3 test cases" in text
    assert "Base was not measured at all" in text
    assert "Not drawn: Speed-up at concurrency 4" in text


@pytest.mark.usefixtures("_without_figures")
def test_incomplete_cases_and_a_torn_line(tmp_path: Path) -> None:
    text = drawn(tmp_path, LINES[:-5], torn=True)
    assert "The run is not complete: requests are missing in 1 case (open-ended)" in text
    assert "The last line of ledger.jsonl is torn" in text
    assert "No verdict: 22 of 24 Base requests were recorded and 20 of 24 SD" in text


@pytest.mark.usefixtures("_without_figures")
def test_a_comparison_has_two_answers_drawn_on_one_scale(tmp_path: Path) -> None:
    lines = [
        generated.slowed(line, 12)
        if line["variant"] == "SD" and line["request"].endswith("-0")
        else line
        for line in LINES
    ]
    path = write_report(generated.write(tmp_path, CONFIG, lines))
    page = path.read_text(encoding="utf-8")
    text = visible(page)
    assert "SD answers requests faster but costs more in 2 of 3 test cases" in text
    assert re.search(
        r"repetition structured speed 2\.\dx decoding \d\.\d+x cost \+\d\d % SD is 2\.\dx faster",
        text,
    )
    # Speed to the right of 1x, cost to the left of it.
    bars = re.findall(
        r'class="one" style="left:([\d.]+)%.*?class="point" style="left:([\d.]+)%', page, re.DOTALL
    )
    assert len(bars) == 3 * 3
    assert len({one for one, _ in bars}) == 1
    (one, speed), _, (_, cost) = (tuple(map(float, bar)) for bar in bars[:3])
    assert cost < one < speed


@pytest.mark.usefixtures("_without_figures")
def test_without_a_price_the_tokens_a_second_are_the_second_answer(tmp_path: Path) -> None:
    path = write_report(generated.write(tmp_path, CONFIG | {"cost": None}, LINES))
    text = visible(path.read_text(encoding="utf-8"))
    assert "SD answers requests faster and gets more tokens/s in 2 of 3 test cases" in text
    assert re.search(
        r"repetition structured speed 2\.\dx decoding 3\.\dx tokens/s 2\.\dx SD is", text
    )


@pytest.mark.usefixtures("_without_figures")
def test_a_rehearsal_says_so_in_its_heading(tmp_path: Path) -> None:
    configuration = CONFIG | {"stand_in": "golden endpoints"}
    path = write_report(generated.write(tmp_path, configuration, LINES))
    page = path.read_text(encoding="utf-8")
    assert "<h1>Rehearsal: SD answers requests faster and costs less in 2 of 3 test cases" in page
    assert "keep it on" not in page


@pytest.mark.usefixtures("_without_figures")
def test_too_few_rounds_have_no_answers(tmp_path: Path) -> None:
    text = drawn(tmp_path, [line for line in LINES if line["round"] <= 2], rounds=2)
    assert "SD has no verdict in 3 of 3 test cases" in text
    assert "repetition structured speed - cost - No verdict: both were measured in 2" in text


def test_medians_have_intervals_and_the_page_says_why_others_have_none(
    run: Path, page: str
) -> None:
    text = visible(page)
    summary = json.loads((run / "summary.json").read_text(encoding="utf-8"))
    for case in summary["cases"]:
        for cell in case["cells"]:
            typical = cell["measures"]["TimePerOutputToken"]["typical"]
            bounds = (f"{1000 * typical[end]:.1f}" for end in ("low", "high"))
            assert f"{cell['variant']} {'-'.join(bounds)} " in text
    assert "p90 and p99 have none" in text


def test_one_number_for_each_class_of_several_cases(run: Path, page: str) -> None:
    (found,) = json.loads((run / "summary.json").read_text(encoding="utf-8"))["overall"]
    speed = found["speed"]
    number = f"{speed['point']:.1f}x {speed['low']:.1f}-{speed['high']:.1f}"
    cost = f"{100 * (1 / found['cost']['point'] - 1):.0f} %".replace("-", "\N{MINUS SIGN}")
    assert f"2 structured test cases {number} {cost}" in visible(page)
    assert "of these test cases, not of prompts in general" in visible(page)


def test_lines_break_neither_in_an_interval_nor_before_a_per_cent_sign(page: str) -> None:
    sentences = re.findall(r'<div class="sentence">.*?</div>', page, re.DOTALL)
    assert len(sentences) == 3
    for sentence in sentences:
        assert "95\N{NO-BREAK SPACE}% interval" in sentence
        assert not re.search(r"\d-\d|\d %", sentence)


@pytest.mark.usefixtures("_without_figures")
def test_a_case_that_failed(tmp_path: Path) -> None:
    lines = [
        generated.fail(line) if (line["case"], line["variant"]) == ("counting", "SD") else line
        for line in LINES
    ]
    text = drawn(tmp_path, lines)
    assert "every SD request failed (the server reset the connection)" in text


def test_nothing_recorded_and_no_ledger(tmp_path: Path) -> None:
    generated.write(tmp_path, CONFIG, [])
    (tmp_path / "ledger.jsonl").unlink()
    text = visible(write_report(tmp_path).read_text(encoding="utf-8"))
    assert "There is no ledger.jsonl in this folder" in text


def test_drawing_again_gives_the_same_bytes(run: Path, page: str) -> None:
    before = {path.name: path.read_bytes() for path in run.glob("*.png")}
    assert write_report(run).read_text(encoding="utf-8") == page
    assert {path.name: path.read_bytes() for path in run.glob("*.png")} == before


@pytest.mark.usefixtures("_without_figures")
def test_the_server_s_own_count_stands_beside_the_ledger_s(tmp_path: Path) -> None:
    folder = generated.write(tmp_path, CONFIG, LINES)
    write_report(folder)
    assert "own counters" not in visible((folder / "report.html").read_text())

    requests, tokens, steps = [], 0, 0
    for line in LINES:
        if (line["variant"], line["case"]) == ("SD", "counting") and line["round"] == 1:
            requests.append(line["request"])
            tokens += line["output_tokens"]
            steps += len(line["chunks"]) - 1
    accepted = tokens - len(requests) - steps
    count = Count(
        "counting",
        1,
        "SD",
        tuple(requests),
        Counters(
            *(2 * tokens, steps, 7 * steps, accepted, (steps,) * 7, 0.5, len(requests)),
            *(2 * tokens, len(requests), steps),
        ),
    )
    with Journal(folder / COUNTERS) as journal:
        journal.append(count)
    greedy.write(folder, [Divergence("SD", "counting", "token", 100, 17)])
    write_report(folder)
    text = visible((folder / "report.html").read_text())
    assert f"tokens {tokens:,} {2 * tokens:,} 50.00%" in text
    assert f"steps {steps:,} {steps:,} 0.00%" in text
    assert "Tokens are those of the answers that ended. Steps are passes of the model" in text
    assert "counting SD : token 17 of 100" in text
    assert "own count, 50.0% apart" in text[: text.index("Verdict per test case")]
