"""What is concluded: headlines of cells and of ladders, verdicts and replies, means."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from spectap.analysis.summary import Crossover, Ladder
from spectap.load_points import LoadPoint
from spectap.report import verdicts
from spectap.report.results import Results
from spectap.report.verdicts import COST, SPEED, TOGETHER, Question
from tests.spectap import generated_runs as generated
from tests.spectap.generated_runs import Line
from tests.spectap.report import runs

CONFIG = generated.config()
LINES = generated.ledger(CONFIG)
POINTS = tuple(LoadPoint(concurrency=number, requests=4) for number in (1, 2, 4, 8))
RATES = tuple(LoadPoint(rate=rate, requests=4) for rate in (0.5, 1))
SWAPPED = {"Base": "SD", "SD": "Base"}
CROSSED = Crossover(5.6, 4, 8)
FASTER = Crossover(None, 8, None)


@pytest.mark.parametrize(
    ("crossover", "question", "changes", "text"),
    [
        (CROSSED, SPEED, {}, "faster up to 4 at once and slower from 8 at once"),
        (CROSSED, TOGETHER, {}, "more tokens/s up to 4 at once and fewer tokens/s from 8 at once"),
        (Crossover(6, 4, None), SPEED, {}, "faster up to 4 at once"),
        (Crossover(1, None, 2), SPEED, {}, "slower from 2 at once"),
        (Crossover(None, None, None), SPEED, {}, "undecided"),
        (FASTER, SPEED, {}, "faster at every load"),
        (Crossover(None, None, 1), SPEED, {}, "slower at every load"),
        (FASTER, SPEED, {"whole": False}, "faster at every load that has a verdict"),
        (FASTER, SPEED, {"failed": True}, "faster wherever they succeed"),
        # Failed requests take time and bring no tokens, so the cost has them in it.
        (FASTER, COST, {"failed": True}, "less at every load"),
        (
            Crossover(0.7, 0.5, 1),
            *(SPEED, {"loads": RATES}, "faster up to 0.5 a second and slower from 1 a second"),
        ),
    ],
)
def test_a_crossover_in_words(
    crossover: Crossover, question: Question, changes: Line, text: str
) -> None:
    ladder = replace(Ladder("SD", "Base", False, POINTS, crossover, crossover, ""), **changes)
    assert verdicts.over_loads(ladder, question) == text


def swapped(line: Line) -> Line:
    return line | {"variant": SWAPPED[line["variant"]]} if line["case"] == "counting" else line


def failed(line: Line) -> Line:
    return generated.fail(line) if line["request"] == "counting-SD-1-0" else line


@pytest.mark.parametrize(
    ("change", "settings", "text"),
    [
        (
            swapped,
            {},
            "SD: requests faster in 1 of 3 test cases, slower in 1, undecided in 1; "
            "cost less in 1, more in 1, undecided in 1",
        ),
        (
            lambda line: line,
            {"cost": None},
            "SD: requests faster in 2 of 3 test cases, undecided in 1; "
            "all together more tokens/s in 2, undecided in 1",
        ),
        (
            lambda line: line if line["round"] <= 2 else None,
            {},
            "SD: no verdict in 3 of 3 test cases",
        ),
        (
            failed,
            {"stand_in": "golden endpoints"},
            "Rehearsal: SD: requests faster in 2 of 3 test cases, undecided in 1; "
            "cost less in 2, undecided in 1; 1 of 24 SD requests failed",
        ),
        (
            lambda line: line if line["variant"] == "Base" else None,
            {"variants": generated.ARTICLE[:1]},
            "Base in 3 test cases",
        ),
    ],
)
def test_a_headline(
    tmp_path: Path, change: Callable[[Line], Line | None], settings: Line, text: str
) -> None:
    lines = [changed for line in LINES if (changed := change(line))]
    run = runs.read(tmp_path, CONFIG | settings, lines)
    assert verdicts.headline(run.summary) == (text, ())


def test_over_loads_a_queue_is_in_the_headline_and_the_cost_below(ladder: Results) -> None:
    text, below = verdicts.headline(ladder.summary)
    answers, *queues = text.split("; ")
    assert answers == (
        "SD: requests faster up to 4 at once and slower from 8 at once in 2 of 3 test cases, "
        "faster up to 1 at once and slower from 4 at once in 1"
    )
    assert [queue.split(" queue ")[0] for queue in queues] == ["Base requests", "SD requests"]
    (cost,) = below
    assert cost.startswith("SD: cost less up to 4 at once and more from 8 at once in 2 of 3 test")


def test_a_lagging_load_and_missing_verdicts_are_said(tmp_path: Path) -> None:
    content = runs.ladder_config({4: 1.0, 8: 4.0})
    lines = [
        line | ({"due": line["sent"] - 60} if line["load"].startswith("rate") else {})
        for line in runs.ladder_lines(content, {4: 1.0, 8: 4.0})
        if (line["case"], line["load"], line["round"]) != ("counting", "concurrency-4", 5)
    ]
    summary = runs.read(tmp_path, content, lines).summary
    text, _ = verdicts.headline(summary)
    assert "SD requests were sent late, so the load was another" in text
    assert "1 of 9 measurements have no verdict" in text
    sentences = verdicts.sentences(summary.cases[1], several=True)
    unfinished = "At concurrency 4: No verdict: 20 of 24 Base requests"
    assert any(sentence.startswith(unfinished) for sentence in sentences)


def test_one_load_of_each_kind_has_verdicts_and_no_ladder(tmp_path: Path) -> None:
    """Nor is the cost asked for over rates: in an open loop the throughput is the schedule's."""
    summary = runs.ladder(tmp_path / "a", {4: 0.8}, {0.5: 0.8}, cases=1).summary
    closed, rate = verdicts.sentences(summary.cases[0], several=True)
    assert closed.startswith("At concurrency 4: SD is ")
    assert rate.startswith("At 0.5 requests a second: SD is ")
    assert "in 2 of 2 measurements" in verdicts.headline(summary)[0]
    of_rates = runs.ladder(tmp_path / "b", {}, {0.5: 0.8, 4: 4.0}, cases=1).summary
    text, below = verdicts.headline(of_rates)
    assert (text.split(" up to ")[0], below) == ("SD: requests faster", ())


def test_of_several_variants_each_has_a_sentence_and_its_own_baseline(tmp_path: Path) -> None:
    configuration = generated.config(variants=generated.TWO_BASELINES, rounds=3)
    summary = runs.read(tmp_path, configuration).summary
    text, below = verdicts.headline(summary)
    assert text == "2 variants compared in 3 test cases"
    assert [sentence.split()[0] for sentence in below] == ["k7:", "k7-b8:"]
    first, second = verdicts.sentences(summary.cases[0], several=False)
    assert first.startswith("repetition: k7 is ")
    assert "faster than Base-b8 for one request" in second


def test_a_reply_has_the_colour_of_the_better_variant(tmp_path: Path) -> None:
    """One request of each wave keeps the hardware busy, while the others are done."""
    lines = [
        generated.slowed(line, 12)
        if line["variant"] == "SD" and line["request"].endswith("-0")
        else line
        for line in LINES
    ]
    summary = runs.read(tmp_path, CONFIG, lines).summary
    ((cell, comparison),) = summary.cases[0].compared
    speed, decoding, cost = verdicts.replies(cell, summary)
    assert [each.question for each in (speed, decoding, cost)] == ["speed", "decoding", "cost"]
    assert re.fullmatch(r"2\.\dx", speed.figure)
    assert re.fullmatch(r"\+\d\d %", cost.figure)
    assert (speed.colour, decoding.colour, cost.colour) == ("variant-2", "muted", "variant-1")
    assert "keep it on only where speed counts more." in comparison.verdict.sentence
    text, _ = verdicts.headline(summary)
    assert "faster in 2 of 3 test cases" in text
    assert "cost more in 3" in text


def test_one_number_for_each_class_of_several_cases(comparison: Results) -> None:
    (overall,) = comparison.summary.overall
    assert overall.speed
    ((row,),) = verdicts.means(comparison.summary).groups
    assert row.labels == ("2 structured test cases", "SD")
    speed, cost = row.values
    assert speed[0] == f"{overall.speed.point:.1f}x"
    assert re.fullmatch("\N{MINUS SIGN}\\d\\d %", cost[0])
