"""Reports as a terminal and a browser show them: every table, sentence and note."""

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from spectap.analysis.summarise import summarise_ledgers
from spectap.report import headline, page, run_view, terminal
from spectap.report.results import Results
from tests import generated_runs as generated
from tests.generated_runs import Line
from tests.report import runs
from tests.report.runs import CONFIG, LINES
from tests.snapshots import TextSnapshot, folded

BLOCK = re.compile(r"</?(?:p|h\d|li|tr|dt|dd|caption|summary|figcaption|header|section)\b[^>]*>")


def swapped(line: Line) -> Line:
    """In one test case the baseline is the faster."""
    sides = {"Base": "SD", "SD": "Base"}
    return line | {"variant": sides[line["variant"]]} if line["case"] == "counting" else line


def failed(line: Line) -> Line:
    return generated.fail(line) if line["request"] == "counting-SD-1-0" else line


def busy(line: Line) -> Line:
    """One request of each wave keeps the hardware busy, while the others are done."""
    last = line["variant"] == "SD" and line["request"].endswith("-0")
    return generated.slowed(line, 12) if last else line


def unfinished(line: Line) -> Line | None:
    return None if (line["case"], line["variant"], line["round"]) == ("counting", "SD", 6) else line


Change = Callable[[Line], Line | None]
RUNS: dict[str, tuple[Change, Line]] = {
    "faster, slower, undecided": (swapped, {}),
    "a failure in a rehearsal": (failed, {"stand_in": "golden endpoints"}),
    "faster and dearer": (busy, {}),
    "a test case is unfinished": (unfinished, {}),
    "two rounds": (lambda line: line if line["round"] <= 2 else None, {}),
    "no price, no count per chunk": (generated.uncounted, {"cost": None}),
    "a variant alone": (
        lambda line: line if line["variant"] == "Base" else None,
        {"variants": generated.ARTICLE[:1], "cost": None},
    ),
}


@pytest.fixture
def snapshot(snapshot: SnapshotAssertion) -> SnapshotAssertion:
    return snapshot.use_extension(TextSnapshot)


@pytest.mark.parametrize("name", RUNS)
def test_a_run(name: str, tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    change, settings = RUNS[name]
    lines = [changed for line in LINES if (changed := change(line))]
    run = runs.read(tmp_path, CONFIG | settings, lines)
    assert terminal.text(run_view.of_run(run), 120) == snapshot


def test_two_baselines(tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    configuration = generated.config(variants=generated.TWO_BASELINES, rounds=3)
    run = runs.read(tmp_path, configuration)
    assert terminal.text(run_view.of_run(run), 120) == snapshot


@pytest.mark.parametrize(("closed", "rates"), [({4: 0.8}, {0.5: 0.8}), ({}, {0.5: 0.8, 4: 4.0})])
def test_a_load_of_each_kind_and_rates_alone(
    closed: runs.Slower, rates: runs.Slower, tmp_path: Path, snapshot: SnapshotAssertion
) -> None:
    """One load has no ladder, and rates have no cost: their throughput is the schedule's."""
    run = runs.ladder(tmp_path, closed, rates, cases=1)
    assert terminal.text(run_view.of_run(run), 120) == snapshot


def test_a_lagging_load_and_a_missing_verdict(tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    content = runs.ladder_config({4: 1.0, 8: 4.0})
    lines = [
        line | ({"due": line["sent"] - 60} if line["load"].startswith("rate") else {})
        for line in runs.ladder_lines(content, {4: 1.0, 8: 4.0})
        if (line["case"], line["load"], line["round"]) != ("counting", "concurrency-4", 5)
    ]
    view = run_view.of_run(runs.read(tmp_path, content, lines))
    assert terminal.text(view, 120, verbose=True) == snapshot


def test_ledgers_without_a_configuration(comparison: Results, snapshot: SnapshotAssertion) -> None:
    assert terminal.text(run_view.of_ledgers(summarise_ledgers(comparison.ledger)), 120) == snapshot
    assert run_view.of_ledgers(summarise_ledgers([])).title.startswith("There is no request")


@pytest.mark.parametrize(
    ("minutes", "cases", "warned"), [(9.9, 1, True), (10, 1, False), (9.9, 2, False)]
)
def test_close_rounds_of_few_cases_are_in_the_verdict(
    minutes: float, cases: int, warned: bool, comparison: Results
) -> None:
    """Of six test cases, each one's rounds are further apart by themselves."""
    summary = comparison.summary
    assert len(summary.cases) == 3
    changed = replace(summary, round_gap_seconds=60 * minutes, cases=summary.cases * cases)
    assert any("these minutes" in text for text in headline.caveats_of(changed)) == warned


def of_page(html: str) -> str:
    """The visible text of a page, a line for each block."""
    _, _, body = html.partition("<body>")
    return folded("\n".join(filter(None, map(runs.visible, BLOCK.split(body)))))


def test_a_page(comparison: Results, snapshot: SnapshotAssertion) -> None:
    assert terminal.text(run_view.of_run(comparison), 120, verbose=True) == snapshot(
        name="terminal"
    )
    assert of_page(page.html(comparison)) == snapshot(name="page")


def test_a_page_over_loads(ladder: Results, snapshot: SnapshotAssertion) -> None:
    """Its tables are those of a load point and of the terminal."""
    assert terminal.text(run_view.of_run(ladder), 120, verbose=True) == snapshot(name="terminal")
    html = re.sub(r"<table.*?</table>", "", page.html(ladder), flags=re.DOTALL)
    assert of_page(html) == snapshot(name="page")
