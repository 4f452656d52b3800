"""The report: self-contained, well-formed, its sections in order, others' text escaped."""

import re
import time
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from spectap.endpoint import greedy
from spectap.endpoint.counters import COUNTERS, Count, Counters
from spectap.endpoint.greedy import Divergence
from spectap.inputs.config import Config
from spectap.records.journal import Journal, write_json
from spectap.report import page, results, run_view
from spectap.report.results import Results
from tests import generated_runs as generated
from tests.report import runs
from tests.report.runs import CONFIG, LINES, section, visible

VOID = {"meta", "br", "hr", "img", "input", "link", "use", "path"}


class Structure(HTMLParser):
    """Checks that every element is closed where it should be, and collects the attributes."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str, str]] = []
        self.feed(html)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run with its report: the only one here that is drawn in full."""
    folder = generated.write(tmp_path_factory.mktemp("run"), CONFIG, LINES)
    generated.write_llmperf(folder, LINES)
    page.write_results(results.read(folder))
    return folder


@pytest.fixture(scope="module")
def html(drawn: Path) -> str:
    return (drawn / "report.html").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def over_loads(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The page of one test case at two load points, with all figures."""
    run = runs.ladder(tmp_path_factory.mktemp("drawn"), {1: 0.8, 8: 4.0}, {}, cases=1)
    return page.html(run, page.draw(run))


def test_drawn_again_it_is_the_same_to_the_byte(drawn: Path, html: str) -> None:
    assert page.write_results(results.read(drawn)).read_text(encoding="utf-8") == html


def test_a_browser_runs_and_fetches_nothing_for_it(html: str, over_loads: str) -> None:
    for text in (html, over_loads):
        for tag, name, value in Structure(text).attributes:
            assert tag not in {"script", "link", "img", "iframe", "object"}
            if name in {"src", "href", "xlink:href"}:
                assert value.startswith("#")
        assert not re.search(r"@import|url\((?!#)", text)
        assert text.count("<style") == 1, "figures take every colour from the page"
        assert not re.search(r"(?:fill|stroke): *(?:#|rgb|black|white)", text)
    policy = html.index('<meta http-equiv="Content-Security-Policy" content="')
    assert policy < html.index("<title>")
    assert html[policy:].split('"')[3].split("; ") == [
        "default-src 'none'",
        "style-src 'unsafe-inline'",  # figures have style attributes
        "base-uri 'none'",
        "form-action 'none'",
    ]


def test_links_have_targets_and_identifiers_are_unique(html: str, over_loads: str) -> None:
    for text in (html, over_loads):
        attributes = Structure(text).attributes
        identifiers = [value for _, name, value in attributes if name == "id"]
        assert len(identifiers) == len(set(identifiers))
        for _, name, value in attributes:
            if name in ("href", "aria-labelledby"):
                assert value.removeprefix("#") in identifiers


def test_there_is_a_figure_for_each_test_case_and_each_load_point(over_loads: str) -> None:
    labels = [value for _, name, value in Structure(over_loads).attributes if name == "aria-label"]
    assert [label.partition(".")[0] for label in labels] == [
        "Speed of a request over the load",
        "Speed-up over the load",
        "Latency over the load",
        "Throughput against decoding speed",
        "Latency over the run at concurrency 1",
        "Latency over the run at concurrency 8",
    ]


def test_a_reader_hears_what_figures_and_tables_are(html: str) -> None:
    structure = Structure(html)
    labels = [value for _, name, value in structure.attributes if name == "aria-label"]
    assert len(labels) == structure.tags.count("figure") == 2
    assert labels[0].startswith("Speed of a request at concurrency 4. A multiple of the base")
    scopes = [each for each in structure.attributes if each[:2] == ("th", "scope")]
    assert len(scopes) == structure.tags.count("th")
    assert structure.tags.count("caption") >= 4


def test_it_follows_the_colour_scheme_of_the_page(html: str) -> None:
    assert "@media (prefers-color-scheme: dark)" in html
    for role in ("paper", "ink", "muted", "rule", "variant-1", "variant-8"):
        assert html.count(f"--{role}: #") == 2
    assert [html.count(f'class="{name}"') for name in ("first doubt", "doubt")] == [1, 1]


def test_no_line_ends_in_a_figure_and_nothing_invisible_is_copied(html: str) -> None:
    answers = re.findall(r'class="answer">(.*?)</(?:h1|p)>', html)
    assert len(answers) == 2
    for answer in answers:
        assert re.search(r'<span class="whole">[\d.]+-[\d.]+</span>', answer)
        assert not re.search(r"\d-\d|\d %", re.sub(r'<span class="whole">.*?</span>', "", answer))
    assert not re.search("[\N{WORD JOINER}\N{NO-BREAK SPACE}]", html)


@pytest.mark.parametrize("text", ["1," * 20_000, "1-1" * 13_000 + "x", "1" + "." * 40_000])
def test_a_long_name_is_read_once(text: str) -> None:
    before = time.process_time()
    assert text[:1000] in page._unbroken(text)
    assert time.process_time() - before < 1


def test_what_all_variants_lack_is_said_once(tmp_path: Path) -> None:
    variants = [generated.ARTICLE[0]] + [
        {**generated.ARTICLE[1], "name": f"k{window}", "window": window} for window in range(2, 8)
    ]
    configuration = generated.config(variants=variants, rounds=3, output_tokens=20)
    text = page.html(runs.read(tmp_path, configuration | {"isolated": True}))
    sentence = "Each variant was measured by itself, at a time and on devices of its own."
    assert sentence in visible(text)
    assert text.count('class="words variant-7">k7</th>') >= 3
    assert "No verdict on 18 measurements: " in visible(text)


def test_the_server_s_own_count_stands_beside_the_ledger_s(tmp_path: Path) -> None:
    folder = generated.write(tmp_path, CONFIG, LINES)
    turn = ("SD", "counting", 1)
    sent = [line for line in LINES if (line["variant"], line["case"], line["round"]) == turn]
    tokens = sum(line["output_tokens"] for line in sent)
    steps = sum(len(line["chunks"]) - 1 for line in sent)
    accepted = tokens - len(sent) - steps
    counters = Counters(
        *(2 * tokens, steps, 7 * steps, accepted, (steps,) * 7),
        *(2 * tokens, len(sent), steps),
    )
    with Journal(folder / COUNTERS) as journal:
        requests = tuple(line["request"] for line in sent)
        journal.append(Count("counting", 1, "SD", requests, counters))
    write_json(folder / greedy.DIVERGENCE, [Divergence("SD", "counting", "token", 100, 17)])
    run = results.read(folder)
    text = page.html(run)
    counts = section(text, "crosscheck")
    assert f"tokens {tokens:,} {2 * tokens:,} 50.00%" in counts
    assert "<strong>50.00%</strong>" in text
    assert f"steps {steps:,} {steps:,} 0.00%" in counts
    assert "agree within 1 %" in counts
    view = run_view.of_run(run)
    assert any("own count, 50.0% apart" in note for note in view.notes)
    sentences = " ".join(view.remarks)
    assert "own counters: 8 of 9 figures agree within 1 %." in sentences
    greedily = "Greedy answers differ in 1 of 1 comparison (counting, SD: at token 17)."
    assert greedily in sentences
    assert greedily in section(text, "greedy")


@pytest.mark.parametrize(
    ("names", "first", "said"),
    [
        (("SD",), 17, "on Neuron two plain servers that differ in KV-cache settings diverge"),
        (("SD", "Base-matched"), 17, "Base-matched decodes plainly too: what differs there"),
        (("SD",), None, "differ in 0 of 1 comparison."),
    ],
)
def test_a_divergence_alone_accuses_nobody(
    comparison: Results, names: tuple[str, ...], first: int | None, said: str
) -> None:
    (base, compared), more = CONFIG["variants"], {"name": "Base-matched", "without": "a setting"}
    configuration = CONFIG | {"variants": [base, compared, base | more][: 1 + len(names)]}
    divergences = tuple(Divergence(name, "counting", "token", 100, first) for name in names)
    config = Config.model_validate(configuration)
    run = replace(comparison, config=config, divergences=divergences)
    assert said in section(page.html(run), "greedy")
    assert said in " ".join(run_view.of_run(run).remarks)


def test_what_others_wrote_is_escaped(tmp_path: Path) -> None:
    """A user, a server, or whoever may write to the bucket."""
    wrote = "\u202e" + r"""<script>alert(1)</script><b onclick="x">&'$\frac{ \1 $_"""
    configuration = generated.config(rounds=4)
    ledger = generated.ledger(configuration)
    configuration |= dict.fromkeys(("experiment", "model", "stand_in"), wrote)
    configuration["settings"] = configuration["load"]["sampling"] = {wrote: wrote}
    configuration["cost"] |= dict.fromkeys(("price_of", "as_of", "denominator"), wrote)
    base, compared = configuration["variants"]
    fields = ("runtime", "mode", "draft", "artifact")
    configuration["variants"] = [base, compared | dict.fromkeys(fields, wrote)]
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
    run = runs.read(tmp_path, configuration, ledger)
    text = page.write_results(run).read_text(encoding="utf-8")
    assert text.count("&lt;script&gt;alert(1)&lt;/script&gt;") > 20
    assert "\u202e" not in text
    structure = Structure(text)
    assert {*structure.tags}.isdisjoint({"script", "b"})
    assert not any(name.startswith("on") for _, name, _ in structure.attributes)
