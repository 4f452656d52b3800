"""The tables of cells and of checks, and the sentences that a terminal has on them."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectap.analysis.estimates.intervals import Interval
from spectap.analysis.summary import Schedule
from spectap.load_points import LoadPoint
from spectap.prompt import LeftOut, UsedSet
from spectap.report import cells, phrases, quality, run_view
from spectap.report.results import Results
from spectap.report.view import Row, Table
from tests.spectap import generated_runs as generated
from tests.spectap import samples
from tests.spectap.report import runs

CONFIG = generated.config()
LINES = generated.ledger(CONFIG)
MINUS = "\N{MINUS SIGN}"


def rows(table: Table) -> list[Row]:
    return [row for group in table.groups for row in group]


def titles(table: Table) -> list[str]:
    return [column.title for column in table.columns]


def points(*concurrencies: int, rates: tuple[float, ...] = ()) -> list[LoadPoint]:
    closed = [LoadPoint(concurrency=number, requests=4) for number in concurrencies]
    return closed + [LoadPoint(rate=rate, requests=4) for rate in rates]


@pytest.mark.parametrize(
    ("loads", "words", "short"),
    [
        (points(4), "concurrency 4", ["4"]),
        (points(1, 2, 8), "concurrency 1, 2 and 8", ["1", "2", "8"]),
        (points(rates=(1,)), "1 request a second", ["1/s"]),
        (points(4, rates=(0.5,)), "concurrency 4, and 0.5 requests a second", ["4", "0.5/s"]),
    ],
)
def test_load_points_in_words(loads: list[LoadPoint], words: str, short: list[str]) -> None:
    assert phrases.load_points(loads) == words
    assert [phrases.short_load(load) for load in loads] == short


def test_a_cell_is_marked_for_its_queue_and_for_its_schedule() -> None:
    late, punctual = (Schedule(0.001, 0.2, 0.3, lagging) for lagging in (True, False))
    assert phrases.load_mark(samples.cell("SD", schedule=punctual)) == ""
    both = samples.cell("SD", schedule=late, queued=True)
    assert (phrases.load_mark(both), phrases.load_letters(both)) == ("queue, lagged", "ql")


@given(st.floats(0, 1))
def test_a_probability_is_never_quite_all_or_nothing(probability: float) -> None:
    text = phrases.probability(probability)
    number = int(re.sub(r"\D", "", text))
    assert 1 <= number <= 99
    if text[0] not in "<>":
        assert abs(100 * probability - number) <= 0.5 + 1e-9


def test_more_tokens_a_second_are_a_lower_cost() -> None:
    tripled = Interval(3.0, 2.5, 4.0)
    assert str(phrases.cost(tripled, priced=True)) == f"{MINUS}67 % ({MINUS}75 to {MINUS}60 %)"
    assert phrases.cost(tripled, priced=False) == phrases.speed(tripled)


def test_a_speed_up_has_bounds_if_it_has_any_width() -> None:
    assert str(phrases.speed(None)) == "-"
    assert str(phrases.speed(Interval(2.9, 2.7, 3.1))) == "2.9x (2.7-3.1)"
    assert str(phrases.speed(Interval(2.912, 2.912, 2.912))) == "2.91x"


def test_every_cell_is_in_every_table_with_its_numbers(comparison: Results) -> None:
    tables = [*cells.tables(comparison)]
    assert [table.title for table in tables] == [
        "Latency",
        "The median latency of a typical round",
        "Throughput and tokens of a request",
        "All requests together",
        "Speed-ups, and llmperf's inter-token latency by its formula on the same streams",
    ]
    every = [(case.name, cell.variant) for case in comparison.summary.cases for cell in case.cells]
    for table in tables[:-1]:
        assert [row.labels for row in rows(table)] == every
        for row in rows(table):
            assert [len(values) for values in row.values] == [len(c.names) for c in table.columns]
    summary = json.loads(comparison.summary.to_json())
    of_cells = [cell for case in summary["cases"] for cell in case["cells"]]
    tpot = titles(tables[1]).index("TPOT, ms")
    for cell, median, together in zip(of_cells, rows(tables[1]), rows(tables[3]), strict=True):
        typical = cell["measures"]["TimePerOutputToken"]["typical"]
        assert median.values[tpot] == ("{:.1f}-{:.1f}".format(*_milliseconds(typical)),)
        assert together.values[0] == ("6", "24", "0")
        speed = cell["tokens_per_second_interval"]
        usd = cell["usd_per_million_output_tokens_interval"]
        assert together.values[1][:2] == (
            "{point:.1f} ({low:.1f}-{high:.1f})".format(**speed),
            "${point:.2f} (${low:.2f}-${high:.2f})".format(**usd),
        )
    pairs = zip(comparison.summary.cases, rows(tables[-1]), strict=True)
    for case, row in pairs:
        ((cell, compared),) = case.compared
        assert (row.labels[1], row.values[0]) == ("SD", ("Base",))
        assert row.values[1][0] == str(phrases.speed(compared.by_time_per_output_token))
        medians = [c.measures["TimePerOutputToken"].p50 for c in (case.cell("Base"), cell)]
        assert row.values[2] == tuple(f"{1000 * p50:.1f}" for p50 in medians)


def _milliseconds(interval: dict[str, float]) -> tuple[float, float]:
    return 1000 * interval["low"], 1000 * interval["high"]


def test_the_overview_doubts_what_is_undecided_and_leaves_out_what_has_no_verdict(
    tmp_path: Path,
) -> None:
    unfinished = ("counting", "SD", 6)
    lines = [line for line in LINES if (line["case"], line["variant"], line["round"]) != unfinished]
    view = run_view.of_run(runs.read(tmp_path, CONFIG, lines))
    overview, sentences = view.tables[0]
    compared = [row for row in rows(overview) if row.labels[1] == "SD"]
    assert [row.labels[0] for row in compared] == ["  structured", "  structured", "  open-ended"]
    first, second, third = (row.values[:3] for row in compared)
    assert re.fullmatch(r"2\.\dx", first[0][0])
    assert (second[0], second[2]) == (("no verdict", ""), ("-",))
    assert third[0][0].endswith("x?")
    assert third[2][0].endswith("%?")
    assert sentences[0].startswith("repetition: SD is 2.")
    remarks = " ".join(view.remarks)
    assert '"?": no difference is proven for this load alone, among all claims' in remarks
    assert "one after the other" not in remarks
    assert "The run is not complete: requests are missing in 1 case (counting)." in view.notes


def test_without_a_price_or_a_count_per_chunk_their_columns_are_empty(tmp_path: Path) -> None:
    lines = map(generated.uncounted, LINES)
    view = run_view.of_run(runs.read(tmp_path, CONFIG | {"cost": None}, lines))
    overview, _ = view.tables[0]
    assert titles(overview)[2] == "times the"
    assert "USD per" not in titles(overview)
    assert "$" not in "".join(view.remarks)
    steps = titles(overview).index("tokens")
    assert {row.values[steps] for row in rows(overview)} == {("-",)}


def test_a_queue_and_objectives_stand_in_the_table(ladder: Results) -> None:
    table = cells.at_each_load(ladder.summary.cases[1], ladder.summary)
    assert [len(group) for group in table.groups] == [2] * 5
    at = {row.labels: row.values for row in rows(table)}
    promised = titles(table).index("Goodput, 95 % interval")
    queued = at["concurrency 8", "SD"]
    assert re.match(r"0 % \(0-\d+\)", queued[promised][0])
    assert (queued[promised][1], queued[promised + 1][2]) == ("missed", "queue")
    assert at["0.5 requests a second", "SD"][promised][1] == "kept"
    assert at["0.5 requests a second", "SD"][promised + 1][1] == "2.00 ms"


def test_remarks_of_a_ladder(ladder: Results) -> None:
    remarks = run_view.of_run(ladder).remarks
    queues = [text for text in remarks if "requests queue:" in text]
    # Each note is said once, after the names of its test cases.
    assert [text.split(":")[0] for text in queues] == ["repetition, counting and open-ended"] * 2
    text = " ".join(remarks)
    assert "The sentence below a table tests the loads one after the other" in text
    assert "p90 of TTFT within 600 ms, p90 of TPOT within 30 ms" in text
    assert "counting: No difference was found between SD's programs and Base's." in text
    assert "repetition: 60 prompts of MT-Bench, Apache-2.0; 7 left out, too long: " in text
    assert "MT-Bench/4 and 2 more." in text


def test_worse_answers_are_an_alarm_and_others_a_row(ladder: Results) -> None:
    assert run_view.of_run(ladder).alarms == ("repetition: " + runs.TOOL_CALLS.sentence,)
    worse, right = rows(quality.correctness(ladder.summary))
    assert (worse.alarming, right.alarming) == (True, False)
    assert worse.values == (
        ("60",),
        ("100 % (94-100)", "90 % (80-96)"),
        (f"{MINUS}10.0 ({MINUS}20.0 to {MINUS}3.0)",),
    )


@pytest.mark.parametrize("counted", [True, False])
def test_what_was_sent_refused_and_not_counted_is_said(tmp_path: Path, counted: bool) -> None:
    lines = [line | {"prompt": f"p{number % 8}"} for number, line in enumerate(LINES)]
    run = runs.read(tmp_path, CONFIG, lines)
    left_out = (LeftOut("line-1", 5000, 4096), LeftOut("line-2", 0, 0, "roles must alternate"))
    used = UsedSet("counting", "ours.jsonl", "", "cd" * 32, (), 12, left_out, counted)
    doubt = "" if counted else "; some could not be counted, and may be too long"
    assert quality.prompt_set(used, run) == (
        "12 prompts of ours.jsonl; 8 of 12 sent; 2 left out, too long or refused by a service: "
        f"line-1 and line-2 (roles must alternate){doubt}."
    )
    assert [quality.left_out(prompt) for prompt in left_out] == [
        "line-1 (5,000 tokens with its answer, 4,096 fit)",
        "line-2 (refused: roles must alternate)",
    ]
    every = replace(used, used=8, left_out=(), counted=True)
    assert quality.prompt_set(every, run) == "8 prompts of ours.jsonl."


def test_ledgers_without_a_configuration(comparison: Results) -> None:
    view = run_view.of_ledgers(comparison.ledger)
    assert view.title == "SD against Base: 144 requests, 2026-05-28 20:26 to 20:28 UTC"
    (alone, _), (configured, _) = view.tables[0], run_view.of_run(comparison).tables[0]
    for row, configured_row in zip(rows(alone), rows(configured), strict=True):
        values = dict(zip(titles(configured), configured_row.values, strict=True))
        for title, texts in zip(titles(alone), row.values, strict=True):
            if title and title in values and title != "tokens/s":
                assert texts == values[title], title
    assert not any("USD" in text for text in view.remarks)
    assert run_view.of_ledgers([]).title.startswith("There is no request")
