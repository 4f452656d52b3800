"""Advice as it is shown: what to serve first, then the tables it rests on."""

from __future__ import annotations

from dataclasses import replace

import pytest

from spectap.analysis.advice.advice import Advice, Choice, Recommendation
from spectap.load_points import LoadPoint
from spectap.report import advice, page, phrases, terminal
from spectap.report.results import Results
from spectap.report.view import Row, Table
from tests.spectap.report.runs import section

MINUS = "\N{MINUS SIGN}"


@pytest.fixture(scope="module")
def several(sweep: Results) -> Advice:
    """At two loads."""
    assert sweep.advice
    return sweep.advice


@pytest.fixture(scope="module")
def single(several: Advice) -> Advice:
    """The same at the first load alone."""
    load = several.prospects[0].load
    return replace(
        several,
        prospects=tuple(prospect for prospect in several.prospects if prospect.load == load),
        recommendations=tuple(
            recommendation
            for recommendation in several.recommendations
            if recommendation.load == load
        ),
        costs=tuple(cost for cost in several.costs if cost.load == load),
    )


def rows(table: Table) -> list[Row]:
    return [row for group in table.groups for row in group]


def table(of: Advice, title: str, *, every: bool = True) -> Table:
    (match,) = (each for each in advice.tables(of, every=every) if each.title == title)
    return match


def html(run: Results, of: Advice) -> str:
    """The page's section of that advice."""
    changed = replace(run)
    changed.__dict__["advice"] = of
    return section(page.html(changed), "advice")


def test_the_terminal_says_what_to_serve_first(single: Advice) -> None:
    text = terminal.text(advice.terminal_view(single, "a sweep", None))
    order = [
        "Advice on a sweep",
        single.recommendations[-1].sentence[:60],
        "Next: ",
        "What to serve",
        "Speed-up by window at concurrency 1",
        "Drafts accepted, of those reached",
        "A step, ms",
        "* The mix is structured 67 % and open-ended 33 % of the output tokens.",
        "* Tokens are those of a step",
    ]
    places = [text.index(phrase) for phrase in order]
    assert places == sorted(places)
    assert "Other windows are in" not in text


def test_the_page_says_the_same_and_folds_what_it_rests_on(sweep: Results, several: Advice) -> None:
    text = html(sweep, several)
    order = [
        several.recommendations[2].sentence,
        several.recommendations[-1].sentence,
        "What to serve",
        "How sure: the probability",
        "What this rests on",
        *(each.title for each in advice.tables(several)),
        advice.BOTH_SPEEDS,
    ]
    places = [text.index(" ".join(phrase.split())) for phrase in order]
    assert places == sorted(places)


def test_what_to_serve_has_a_line_for_each_class_and_load(several: Advice) -> None:
    served = advice.serve(several)
    assert [len(group) for group in served.groups] == [3, 3]
    classes = ("structured", "open-ended", "the mix")
    assert [row.labels[:2] for row in rows(served)] == [
        (load, name) for load in ("1", "4") for name in classes
    ]
    for row, recommendation in zip(rows(served), several.recommendations, strict=True):
        assert (
            row.labels[2] == f"{recommendation.choice.line}, window {recommendation.choice.window}"
        )
        ratio = phrases.speed(recommendation.speedup)
        origin = "measured" if recommendation.measured else "predicted"
        assert row.values[0] == (ratio.figure, ratio.bounds, origin)
        assert row.values[1] == (phrases.probability(recommendation.probability),)
        assert row.values[2] == (f"${recommendation.usd_per_million_output_tokens:.2f}",)
    rivals = ((Choice("Qwen3-1.7B", 5), 0.2), (Choice("small", 7), 0.1), (Choice(None, None), 0.1))
    (first, *_) = several.recommendations
    best = replace(first, choice=Choice("Qwen3-1.7B", 3), rivals=rivals)
    (row,) = rows(advice.serve(replace(several, recommendations=(best,))))
    assert row.values[-1] == ("window 5 (20 %)\nsmall, window 7 (10 %)",)
    off = replace(best, choice=Choice(None, None), rivals=())
    (row,) = rows(advice.serve(replace(several, recommendations=(off,)), rivals=False))
    assert (row.labels[-1], row.values[0]) == ("no speculation", ("-", "", ""))


def test_all_windows_are_shown_of_one_load_and_of_several_those_that_matter(
    single: Advice, several: Advice
) -> None:
    title = "Speed-up by window at concurrency 1"
    every = [row.labels for row in rows(table(single, title))]
    windows = [int(window) for line, window in every if line == "Qwen3-1.7B"]
    assert windows == [*range(2, 12)]
    matter = [row.labels for row in rows(table(several, title, every=False))]
    assert {("Qwen3-1.7B", str(number)) for number in (3, 5, 7, 11)} <= set(matter) < set(every)
    assert "* Other windows are in advice.json." in terminal.text(
        advice.terminal_view(several, "", None)
    )


def test_a_measured_window_has_what_was_predicted_and_how_far_that_was_off(single: Advice) -> None:
    table_rows = table(single, "Speed-up by window at concurrency 1")
    (row,) = (row for row in rows(table_rows) if row.labels == ("Qwen3-1.7B", "7"))
    for prospect, texts in zip(
        (each for each in single.prospects if (each.line, each.window) == ("Qwen3-1.7B", 7)),
        row.values,
        strict=True,
    ):
        assert prospect.predicted
        assert prospect.measured
        error = 100 * (prospect.predicted.point / prospect.measured.point - 1)
        sign = MINUS if error < 0 else "+"
        digits = 0 if abs(error) >= 10 else 1
        assert texts[0] == f"{prospect.tokens_per_step:.2f}"
        assert texts[2].split()[0] == phrases.speed(prospect.measured).figure
        assert texts[3] == f"{sign}{abs(error):.{digits}f} %"
    measured = tuple(
        replace(prospect, predicted=None) for prospect in single.prospects if prospect.measured
    )
    alone = table(replace(single, prospects=measured), "Speed-up by window at concurrency 1")
    assert [row.values[0][1] for row in rows(alone)] == ["-"] * 5
    assert {len(texts) for row in rows(alone) for texts in row.values if texts[0]} == {3}


def test_costs_are_split_by_line_and_load(several: Advice) -> None:
    table_rows = rows(table(several, "A step, ms"))
    assert [row.labels for row in table_rows] == [
        (line.name, load) for line in several.lines for load in ("1", "4")
    ]
    cost = several.costs[0]
    assert table_rows[0].values[0] == (f"{1000 * cost.baseline:.1f}",)
    assert [len(values) for values in table_rows[0].values] == [1, 4]


def test_acceptance_has_the_steps_that_reached_a_position(single: Advice) -> None:
    first, *_ = rows(table(single, "Drafts accepted, of those reached"))
    position = single.acceptances[0].positions[0]
    assert position.interval
    low, high = position.interval
    assert first.values[0] == (
        f"{100 * position.accepted:.0f} %",
        f"{100 * low:.0f}-{100 * high:.0f}",
        f"{position.reached:,}",
    )


@pytest.mark.parametrize(("shares", "expected"), [((1.0, 0.0), True), ((0.0, 1.0), False)])
def test_what_to_measure_next_is_said_once_and_of_classes_with_a_share(
    single: Advice, shares: tuple[float, float], expected: bool
) -> None:
    structured, _, mixed = single.recommendations

    def predicted(of: Recommendation, window: int) -> Recommendation:
        choice = Choice("Qwen3-1.7B", window)
        return replace(of, choice=choice, measured=False, measure_next=f"Measure {window}.")

    mix = tuple(zip(("structured", "open-ended"), shares, strict=True))
    best = (predicted(structured, 9), predicted(mixed, 5))
    changed = replace(single, mix=mix, recommendations=best)
    assert advice.measure_next(changed) == ("Measure 5.", "Measure 9.")[: 1 + expected]


def test_a_rehearsal_says_what_is_fastest_and_what_stood_in(sweep: Results, single: Advice) -> None:
    rehearsal = replace(single, rehearsal=True)
    warning = "Not advice for Trainium: golden endpoints stood in for the services."
    assert advice.in_short(rehearsal, "golden endpoints") == (warning,)
    assert advice.measure_next(rehearsal) == ()
    assert advice.terminal_view(rehearsal, "", "golden endpoints").lead == (warning,)
    assert advice.serve(rehearsal).title == "Fastest in this rehearsal"
    text = html(sweep, rehearsal)
    assert text.index("Not advice for Trainium") < text.index("Fastest in this rehearsal")


def test_in_short_are_the_first_and_the_last_load(several: Advice, single: Advice) -> None:
    loads = [LoadPoint(concurrency=number, requests=number) for number in (1, 2, 4)]
    best = tuple(
        replace(single.recommendations[-1], load=load, sentence=str(load)) for load in loads
    )
    short = advice.in_short(replace(several, recommendations=best), None)
    assert short == ("concurrency 1", "concurrency 4")
    assert advice.in_short(single, None) == (single.recommendations[-1].sentence,)
