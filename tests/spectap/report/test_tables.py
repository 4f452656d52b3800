"""The tables of cells and of checks, and the sentences that a terminal has on them."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from spectap import metrics
from spectap.analysis.estimates.intervals import Interval
from spectap.analysis.summary import Schedule
from spectap.load_points import LoadPoint
from spectap.metrics import Metric
from spectap.prompt import LeftOut, UsedSet
from spectap.report import cells, page, phrases, quality, results, run_view
from spectap.report.results import Results
from spectap.report.view import Row, Table
from tests.spectap import generated_runs as generated
from tests.spectap import samples
from tests.spectap.report import runs

CONFIG = generated.config()
LINES = generated.ledger(CONFIG)
MINUS = "\N{MINUS SIGN}"
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


def rows(table: Table) -> list[Row]:
    return [row for group in table.groups for row in group]


def column(table: Table, title: str) -> list[tuple[str, ...]]:
    """The texts of the columns of that title, row by row."""
    number = [columns.title for columns in table.columns].index(title)
    return [row.values[number] for row in rows(table)]


CLOSED = LoadPoint(concurrency=4, requests=4)
HALF, ONCE = (LoadPoint(rate=rate, requests=4) for rate in (0.5, 1))
LATE, PUNCTUAL = (Schedule(0.001, 0.2, 0.3, lagging) for lagging in (True, False))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # More tokens a second are a lower cost.
        (phrases.cost(Interval(3, 2.5, 4), priced=True), f"{MINUS}67 % ({MINUS}75 to {MINUS}60 %)"),
        (phrases.cost(Interval(3, 2.5, 4), priced=False), "3.0x (2.5-4.0)"),
        (phrases.speed(None), "-"),
        (phrases.speed(Interval(2.9, 2.7, 3.1)), "2.9x (2.7-3.1)"),
        # Bounds are there if they have any width.
        (phrases.speed(Interval(2.912, 2.912, 2.912)), "2.91x"),
        # A probability is never quite all or nothing.
        (phrases.probability(1.0), "> 99 %"),
        (phrases.probability(0.0), "< 1 %"),
        (phrases.probability(0.706), "71 %"),
        (phrases.load_points([CLOSED, HALF]), "concurrency 4, and 0.5 requests a second"),
        (phrases.load_points([ONCE]), "1 request a second"),
        (phrases.short_load(HALF), "0.5/s"),
        (phrases.load_mark(samples.cell("SD", schedule=PUNCTUAL)), ""),
        (phrases.load_mark(samples.cell("SD", schedule=LATE, queued=True)), "queue, lagged"),
    ],
)
def test_a_figure_in_words(text: phrases.Estimate | str, expected: str) -> None:
    assert str(text) == expected


def test_every_cell_is_in_every_table_with_its_numbers(comparison: Results) -> None:
    latency, single, together, speedups = cells.tables(comparison.summary)
    every = [cell for case in comparison.summary.cases for cell in case.cells]
    for table in (latency, single, together):
        assert [row.labels for row in rows(table)] == [(c.test_case, c.variant) for c in every]
        for row in rows(table):
            assert [len(values) for values in row.values] == [len(c.names) for c in table.columns]
    for cell, texts, of_all in zip(
        every,
        column(latency, "TPOT, ms"),
        column(together, "Together, 95 % interval"),
        strict=True,
    ):
        tpot, speed = cell.measures["TimePerOutputToken"], cell.tokens_per_second_interval
        assert tpot.typical
        assert speed
        assert texts == (
            *(f"{1000 * value:.1f}" for value in (tpot.p50, tpot.p90, tpot.p99)),
            f"{1000 * tpot.typical.low:.1f}-{1000 * tpot.typical.high:.1f}",
        )
        assert of_all[:2] == ("0/24", f"{speed.point:.1f} ({speed.low:.1f}-{speed.high:.1f})")
        usd = cell.usd_per_million_output_tokens_interval
        assert usd
        assert of_all[2] == f"${usd.point:.2f} (${usd.low:.2f}-${usd.high:.2f})"
    for case, row in zip(comparison.summary.cases, rows(speedups), strict=True):
        ((_, compared),) = case.compared
        ratios = (compared.speedup, compared.by_time_per_output_token, compared.by_end_to_end)
        assert row.labels[1] == "SD"
        assert row.values[0][:4] == ("Base", *(str(phrases.speed(ratio)) for ratio in ratios))


def test_the_overview_doubts_what_is_undecided_and_leaves_out_what_has_no_verdict(
    tmp_path: Path,
) -> None:
    unfinished = ("counting", "SD", 6)
    lines = [line for line in LINES if (line["case"], line["variant"], line["round"]) != unfinished]
    view = run_view.of_run(runs.read(tmp_path, CONFIG, lines))
    overview, sentences = view.tables[0]
    first, second, third = column(overview, "against the baseline")[1::2]
    assert re.fullmatch(r"2\.\dx", first[0])
    assert second == ("no verdict", "", "-", "-")
    assert (third[0][-2:], third[3][-2:]) == ("x?", "%?")
    assert sentences[0].startswith("repetition: SD is 2.")
    remarks = " ".join(view.remarks)
    assert '"?": no difference is proven for this load alone, among all claims' in remarks
    assert "one after the other" not in remarks
    assert "The run is not complete: requests are missing in 1 case (counting)." in view.notes


def test_without_a_price_or_a_count_per_chunk_their_columns_are_empty(tmp_path: Path) -> None:
    lines = map(generated.uncounted, LINES)
    view = run_view.of_run(runs.read(tmp_path, CONFIG | {"cost": None}, lines))
    overview, _ = view.tables[0]
    assert overview.columns[0].names[-1] == "tokens/s"
    assert "USD per" not in [columns.title for columns in overview.columns]
    assert "$" not in "".join(view.remarks)
    assert set(column(overview, "tokens")) == {("-",)}


def test_a_queue_and_objectives_stand_in_the_tables(ladder: Results) -> None:
    eight, rate = (ladder.at(ladder.config.load.points[number]) for number in (3, 4))
    *_, of_eight, _ = cells.tables(eight.summary)
    *_, of_rate, _ = cells.tables(rate.summary)
    share, kept = column(of_eight, "Goodput, 95 % interval")[1]
    assert re.match(r"0 % \(0-\d+\)", share)
    assert kept == "missed"
    assert column(of_eight, "Load")[1][2] == "queue"
    assert column(of_rate, "Goodput, 95 % interval")[1][1] == "kept"
    assert column(of_rate, "Load")[1][1] == "2.00 ms"


def test_remarks_of_a_ladder(ladder: Results) -> None:
    remarks = run_view.of_run(ladder).remarks
    queues = [text for text in remarks if "requests queue:" in text]
    # Each note is said once, after the names of its test cases.
    assert [text.split(":")[0] for text in queues] == ["repetition, counting and open-ended"] * 2
    text = " ".join(remarks)
    assert "The sentence below a table tests the loads one after the other" in text
    assert "p90 of TTFT within 600 ms, p90 of TPOT within 30 ms" in text
    assert "counting: No difference was found between SD's programs and Base's." in text
    assert "repetition: 60 prompts of MT-Bench, Apache-2.0; 7 left out, too long." in text


def test_worse_answers_are_an_alarm_and_others_a_row(ladder: Results) -> None:
    assert run_view.of_run(ladder).alarms == ("repetition: " + runs.TOOL_CALLS.sentence,)
    worse, right = rows(quality.correctness(ladder.summary))
    assert (worse.alarming, right.alarming) == (True, False)
    assert worse.values == (
        ("60",),
        ("100 % (94-100)", "90 % (80-96)"),
        (f"{MINUS}10.0 ({MINUS}20.0 to {MINUS}3.0)",),
    )


def test_what_was_sent_refused_and_not_counted_is_said(tmp_path: Path) -> None:
    lines = [line | {"prompt": f"p{number % 8}"} for number, line in enumerate(LINES)]
    run = runs.read(tmp_path, CONFIG, lines)
    left_out = (LeftOut("line-1", 5000, 4096), LeftOut("line-2", 0, 0, "roles must alternate"))
    used = UsedSet("counting", "ours.jsonl", "", "cd" * 32, (), 12, left_out, False)
    text = "12 prompts of ours.jsonl; 8 of 12 sent; 2 left out, too long or refused by a service"
    doubt = "; some could not be counted, and may be too long."
    assert quality.prompt_set(used, run) == text + doubt
    assert quality.prompt_set(replace(used, counted=True), run) == f"{text}."
    assert [quality.left_out(prompt) for prompt in left_out] == [
        "line-1 (5,000 tokens with its answer, 4,096 fit)",
        "line-2 (refused: roles must alternate)",
    ]


def test_ledgers_without_a_configuration(comparison: Results) -> None:
    view = run_view.of_ledgers(comparison.ledger)
    assert view.title == "SD against Base: 144 requests, 2026-05-28 20:26 to 20:28 UTC"
    assert view.headline.startswith("SD: requests faster in 2 of 3 test cases")
    (alone, _), (configured, _) = view.tables[0], run_view.of_run(comparison).tables[0]
    for title in ("TPOT ms", "TTFT ms", "E2E s", "tokens"):
        assert column(alone, title) == column(configured, title)
    assert not any("USD" in text for text in view.remarks)
    assert run_view.of_ledgers([]).title.startswith("There is no request")


def test_an_added_metric_is_in_summary_tables_and_definitions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A metric is one entry of the catalogue."""
    monkeypatch.setattr(metrics, "METRICS", (*metrics.METRICS, FIRST_GAP))
    monkeypatch.setattr(page, "draw", lambda run: ())
    run = results.read(generated.write(tmp_path, CONFIG, LINES))
    html = page.write_results(run).read_text(encoding="utf-8")
    summary = json.loads((tmp_path / "summary.json").read_text(encoding="utf-8"))
    measure = summary["cases"][0]["cells"][0]["measures"]["FirstGap"]
    assert measure["count"] == 24
    assert measure["p50"] == pytest.approx(generated.BASE_STEP, rel=0.05)
    overview, _ = run_view.of_run(run).tables[0]
    assert column(overview, "First gap ms")[0] == (f"{measure['p50'] * 1000:.1f}",)
    assert ">First gap, ms</th>" in html
    assert f"<dt>First gap</dt><dd>{FIRST_GAP.title}. {FIRST_GAP.definition}</dd>" in html
