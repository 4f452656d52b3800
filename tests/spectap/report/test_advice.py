"""Advice as it is shown: what to serve first, then the tables it rests on."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from spectap.analysis.advice.advice import Advice, Choice
from spectap.load_points import LoadPoint
from spectap.report import advice, figures, terminal
from spectap.report.page import write_report
from spectap.report.view import Figures, Fold, Row, Table
from tests.spectap import generated_runs as generated
from tests.spectap.report import advised

SEVERAL = advised.advice([advised.ALONE, advised.FOUR])
ONE = advised.advice()
LOADS = [LoadPoint(concurrency=number, requests=number) for number in (1, 2, 4, 8, 16)]


def rows(table: Table) -> list[Row]:
    return [row for group in table.groups for row in group]


def table(of: Advice, title: str, *, every: bool = True) -> Table:
    (found,) = (one for one in advice.tables(of, every=every) if one.title == title)
    return found


def windows(of: Table, line: str) -> list[int]:
    return [int(row.labels[1]) for row in rows(of) if row.labels[0] == line]


def test_the_terminal_says_what_to_serve_first() -> None:
    view = advice.terminal_view(ONE, "Advice on article-sweep", None)
    text = terminal.text(view)
    order = [
        "Advice on article-sweep",
        "Serve the mix at concurrency 4 with Qwen3-1.7B and a window of 12",
        "Next: Measure Qwen3-1.7B and a window of 12.",
        "What to serve",
        "Speed-up by window at concurrency 4",
        "Drafts accepted, of those reached",
        "A step, ms",
        "* The mix is structured 52 % and open-ended 48 %",
        "* Tokens are those of a step",
        "* Position 14 was reached 38 times",
    ]
    places = [text.index(part) for part in order]
    assert places == sorted(places)


def test_the_page_says_the_same_and_folds_what_it_rests_on() -> None:
    section = advice.page_section(ONE, None, [])
    assert section.blocks[0].text.startswith("Serve the mix at concurrency 4")  # type: ignore[union-attr]  # it is a text
    (fold,) = (block for block in section.blocks if isinstance(block, Fold))
    titles = [block.title for block in fold.blocks if isinstance(block, Table)]
    shown = [one.title for one in advice.tables(ONE)]
    assert titles == shown
    assert not any(isinstance(block, Figures) for block in section.blocks)


def test_all_windows_are_shown_of_one_load_and_of_several_those_that_matter() -> None:
    every = table(ONE, "Speed-up by window at concurrency 4")
    assert windows(every, "Qwen3-0.6B") == windows(every, "Qwen3-1.7B") == [*range(2, 16)]
    text = terminal.text(advice.terminal_view(SEVERAL, "", None))
    assert "* Other windows are in advice.json." in text
    for load in (1, 4):
        some = table(SEVERAL, f"Speed-up by window at concurrency {load}", every=False)
        # Measured, recommended, or likely to be better than what is.
        assert windows(some, "Qwen3-0.6B") == [*advised.MEASURED]
        assert windows(some, "Qwen3-1.7B") == [3, 4, 5, 7, 11, 12, 13, 15]


def test_a_measured_window_has_what_was_predicted_and_how_far_that_was_off() -> None:
    shown = table(ONE, "Speed-up by window at concurrency 4")
    (row,) = (row for row in rows(shown) if row.labels == ("Qwen3-0.6B", "3"))
    minus = "\N{MINUS SIGN}"
    assert row.values[0] == ("2.39", "1.97x 1.85-2.08", "2.0x 1.9-2.1", f"{minus}2.0 %")
    alone = advised.one_window()
    (row,) = rows(table(alone, "Speed-up by window at concurrency 4"))
    assert row.values[0][:2] == ("5.22", "-")
    assert len(row.values[0]) == 3


def test_costs_are_split_by_line_and_load() -> None:
    shown = rows(table(SEVERAL, "A step, ms"))
    assert [row.labels for row in shown] == [
        (line, load) for line in ("Qwen3-0.6B", "Qwen3-1.7B") for load in ("1", "4")
    ]
    cost = SEVERAL.costs[0]
    assert shown[0].values[0] == (f"{1000 * cost.baseline:.1f}",)
    assert [len(values) for values in shown[0].values] == [1, 3, 2]
    (single,) = rows(table(advised.one_window(), "A step, ms"))
    assert single.values[2][0] == "-"


def test_acceptance_has_the_steps_that_reached_a_position() -> None:
    first, *_ = rows(table(ONE, "Drafts accepted, of those reached"))
    assert first.labels == ("1",)
    assert first.values[0] == ("78 %", "77-79", "4,000")


def test_nothing_is_faster_than_no_speculation() -> None:
    off = tuple(replace(one, choice=Choice(None, None)) for one in ONE.recommendations)
    shown = rows(advice.serve(replace(ONE, recommendations=off), rivals=False))
    assert {row.labels[-1] for row in shown} == {"no speculation"}
    assert {row.values[:2] for row in shown} == {(("-", "", ""), ("71 %",))}


def test_a_rate_is_a_load_as_well() -> None:
    rate = LoadPoint(rate=0.5, requests=8)
    of = advised.advice([advised.FOUR, rate])
    assert rows(table(of, "Speed-up by window at 0.5 requests a second"))
    assert [row.labels[0] for row in rows(advice.serve(of))] == ["4"] * 3 + ["0.5/s"] * 3


def test_many_classes_and_loads_stand_in_the_details() -> None:
    few, many = (
        advice.page_section(advised.advice(loads), None, []) for loads in (LOADS[:2], LOADS)
    )
    for section, sizes in ((few, [3, 3]), (many, [1] * 5)):
        (first,) = (block for block in section.blocks if isinstance(block, Table))
        assert [len(group) for group in first.groups] == sizes
    (fold,) = (block for block in many.blocks if isinstance(block, Fold))
    whole = fold.blocks[0]
    assert isinstance(whole, Table)
    assert [len(group) for group in whole.groups] == [3] * 5


def test_what_to_measure_next_is_said_once() -> None:
    several = advised.advice(LOADS[:3])
    assert advice.measure_next(several) == ("Measure Qwen3-1.7B and a window of 12.",)


@pytest.mark.parametrize(("shares", "said"), [((1.0, 0.0), True), ((0.0, 1.0), False)])
def test_a_class_is_to_be_measured_if_it_has_a_share(
    shares: tuple[float, float], said: bool
) -> None:
    structured, *others = ONE.recommendations
    choice = Choice("Qwen3-0.6B", 9)
    best = replace(structured, choice=choice, measured=False, measure_next="Measure 9.")
    mix = tuple(zip(("structured", "open-ended"), shares, strict=True))
    sentences = advice.measure_next(replace(ONE, mix=mix, recommendations=(best, *others)))
    assert ("Measure 9." in sentences) is said


def test_a_fixed_part_below_nothing_is_explained() -> None:
    below = replace(ONE.costs[0], fixed=-0.01)
    assert not any("below 0" in note for note in advice.caveats(ONE))
    assert any("below 0" in note for note in advice.caveats(replace(ONE, costs=(below,))))


def test_a_rehearsal_says_what_is_fastest_and_what_stood_in() -> None:
    of = advised.advice(rehearsal=True)
    warning = "Not advice for Trainium: golden endpoints stood in for the services."
    assert advice.in_short(of, "golden endpoints") == (warning,)
    assert advice.measure_next(of) == ()
    view = advice.terminal_view(of, "Advice", "golden endpoints")
    assert view.lead == (warning,)
    assert advice.serve(of).title == "Fastest in this rehearsal"


def test_in_short_are_the_first_and_the_last_load() -> None:
    short = advice.in_short(advised.advice(LOADS), None)
    assert [re.findall(r"concurrency (\d+)", one) for one in short] == [["1"], ["16"]]
    assert len(advice.in_short(ONE, None)) == 1


def test_the_advice_lies_beside_the_report_unless_nothing_speculates(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(figures, "draw", lambda run: ())
    for number, amount in ((2, True), (1, False)):
        content = generated.config(rounds=3, variants=generated.ARTICLE[:number])
        folder = generated.write(tmp_path / f"{number}", content, generated.ledger(content))
        write_report(folder)
        assert (folder / "advice.json").exists() is amount
    told = json.loads((tmp_path / "2" / "advice.json").read_text(encoding="utf-8"))
    assert {"lines", "mix", "acceptances", "costs", "prospects", "recommendations"} <= told.keys()
