"""Figures, crossovers, replies and prompt sets in words; a metric that is added."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from spectap import metrics, wording
from spectap.analysis.estimate import Interval
from spectap.analysis.summary import Case, Crossover, Ladder, to_json
from spectap.analysis.verdicts import Finding, Verdict
from spectap.inputs import load_points
from spectap.inputs.load_points import LoadPoint
from spectap.inputs.prompt import LeftOut, UsedSet
from spectap.metrics import Metric
from spectap.report import page, phrases, quality, results
from spectap.report.results import Results
from tests import generated_runs as generated
from tests.analysis.test_claims import FASTER, OPEN, SD, SLOWER, TRIFLE
from tests.report import runs
from tests.report.runs import CONFIG, LINES
from tests.report.test_sentences import compared

FIRST_GAP = Metric(
    name="FirstGap",
    unit="Seconds",
    title="Time from the first chunk to the second",
    short="First gap",
    definition="What a reader waits for the second piece of an answer.",
    values=lambda record: metrics.inter_chunk_latencies(record)[:1],
    printed="ms",
    percentiles=("p50",),
)
POINTS = tuple(LoadPoint(concurrency=number, requests=4) for number in (1, 2, 4, 8))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # A speed-up has as many decimals as tell its bounds apart.
        (phrases.speed(Interval(2.94, 2.71, 3.12)), "2.9x (2.7-3.1)"),
        (phrases.speed(Interval(3.0, 2.98, 3.02)), "3.00x (2.98-3.02)"),
        (phrases.speed(Interval(1.04, 0.97, 1.11)), "1.04x (0.97-1.11)"),
        (phrases.speed(Interval(0.741, 0.7408, 0.7424)), "0.741x (0.741-0.742)"),
        (phrases.speed(Interval(1.0, 0.99999, 1.00001)), "1.000x (1.000-1.000)"),
        # More tokens a second are a lower cost.
        (
            phrases.cost(Interval(3, 2.5, 4), priced=True),
            f"{wording.MINUS}67 % ({wording.MINUS}75 to {wording.MINUS}60 %)",
        ),
        (phrases.cost(Interval(3, 2.5, 4), priced=False), "3.0x (2.5-4.0)"),
        # Bounds are there if they have any width.
        (phrases.speed(Interval(2.912, 2.912, 2.912)), "2.91x"),
        # Rounded to cents, it would not be the price of the file.
        (wording.price(2.235), "$2.235"),
        (wording.price(1012.5), "$1,012.50"),
        (load_points.listed([LoadPoint(rate=1, requests=4)]), "1 request a second"),
    ],
)
def test_a_figure(text: phrases.Estimate | str, expected: str) -> None:
    assert str(text) == expected


def judged_alone(answers: str) -> Case:
    """A case whose rows have these answers by themselves: + is better, - worse, = neither."""
    signs = {"+": FASTER, "-": SLOWER, "=": TRIFLE, "?": OPEN}
    cells = (
        replace(SD, load=point, comparison=compared(claim, claim, Verdict(Finding.UNDECIDED)))
        for point, claim in zip(POINTS, map(signs.__getitem__, answers), strict=True)
    )
    return Case("counting", "", False, tuple(cells))


@pytest.mark.parametrize(
    ("rows", "crossover", "text"),
    [
        ("+?=-", Crossover(3.14, 1, 8), "SD equals Base in speed at about 3.1 (1 to 8)"),
        ("-++-", Crossover(None, None, 8), ""),
        ("+-+-", Crossover(1.5, 1, 8), ""),
        ("++++", Crossover(None, 8, None), ""),
    ],
)
def test_a_crossover_is_named_where_rows_turn_once(
    rows: str, crossover: Crossover, text: str, ladder: Results
) -> None:
    nowhere = Crossover(None, None, None)
    of_case = Ladder("SD", "Base", POINTS, POINTS, crossover, nowhere)
    sentence = phrases.crossovers(judged_alone(rows), of_case, ladder.summary)
    assert sentence == (f"{text} requests at once." if text else "")


def test_what_was_sent_refused_and_not_counted_is_said(tmp_path: Path) -> None:
    lines = [line | {"prompt": f"p{number % 8}"} for number, line in enumerate(LINES)]
    run = runs.read(tmp_path, CONFIG, lines)
    left_out = (LeftOut("line-1", 5000, 4096), LeftOut("line-2", 0, 0, "roles must alternate"))
    used = UsedSet("counting", "ours.jsonl", "", "cd" * 32, (), 12, left_out, False)
    text = "12 prompts of ours.jsonl: 8 sent, 2 left out as too long or refused by a service."
    doubt = " Some could not be counted, and may be too long."
    assert quality.prompt_set(used, run) == text + doubt
    assert quality.prompt_set(replace(used, counted=True), run) == text
    assert quality.left_out(left_out[1]) == "line-2 (refused: roles must alternate)"


def test_an_added_metric_is_in_summary_tables_and_definitions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A metric is one entry of the catalogue."""
    monkeypatch.setattr(metrics, "METRICS", (*metrics.METRICS, FIRST_GAP))
    monkeypatch.setattr(page, "draw", lambda run: ())
    run = results.read(generated.write(tmp_path, CONFIG, LINES))
    html = page.write_results(run).read_text(encoding="utf-8")
    summary = json.loads(to_json(run.summary))
    measure = summary["cases"][0]["cells"][0]["measures"]["FirstGap"]
    assert measure["p50"] == pytest.approx(generated.BASE_STEP, rel=0.05)
    assert ">First gap, ms</th>" in html
    assert f"<dt>First gap</dt><dd>{FIRST_GAP.title}. {FIRST_GAP.definition}</dd>" in html
