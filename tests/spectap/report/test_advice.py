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

TITLE = "Speed-up by window at concurrency 1"


@pytest.fixture(scope="module")
def several(sweep: Results) -> Advice:
    """At two loads."""
    assert sweep.advice
    return sweep.advice


def rows(table: Table) -> list[Row]:
    return [row for group in table.groups for row in group]


def table(of: Advice, title: str) -> Table:
    (match,) = (each for each in advice.tables(of) if each.title == title)
    return match


def html(run: Results, of: Advice) -> str:
    """The page's section of that advice."""
    changed = replace(run)
    changed.__dict__["advice"] = of
    return section(page.html(changed), "advice")


def test_terminal_and_page_say_first_what_to_serve(sweep: Results, several: Advice) -> None:
    printed = terminal.text(advice.terminal_view(sweep, several))
    best = [several.recommendations[2].sentence, several.recommendations[-1].sentence]
    titles = ["What to serve", *(each.title for each in advice.tables(several))]
    mix = "The mix is structured 67 % and open-ended 33 % of the output tokens"
    for text, order in (
        (printed, ["Advice on article: ", *best, "Next: ", *titles, f"* {mix}."]),
        (html(sweep, several), [*best, titles[0], mix, *titles[1:], advice.BOTH_SPEEDS]),
    ):
        folded = " ".join(text.split())
        places = [folded.index(" ".join(phrase.split())) for phrase in order]
        assert places == sorted(places)


def test_what_to_serve_has_a_line_for_each_class_and_load(several: Advice) -> None:
    served = advice.serve(several)
    assert [len(group) for group in served.groups] == [3, 3]
    classes = ("structured", "open-ended", "the mix")
    assert [row.labels[:2] for row in rows(served)] == [
        (load, name) for load in ("1", "4") for name in classes
    ]
    for row, of in zip(rows(served), several.recommendations, strict=True):
        assert row.labels[2] == f"{of.choice.line}, window {of.choice.window}"
        ratio = phrases.speed(of.speedup)
        origin = "measured" if of.measured else "predicted"
        assert row.values[0] == (ratio.figure, ratio.bounds, origin)
        assert row.values[1] == (phrases.probability(of.probability),)
        assert row.values[2] == (f"${of.usd_per_million_output_tokens:.2f}",)
    off = replace(several.recommendations[0], choice=Choice(None, None))
    (row,) = rows(advice.serve(replace(several, recommendations=(off,))))
    assert (row.labels[-1], row.values[0]) == ("no speculation", ("-", "", ""))


def test_a_window_has_what_was_predicted_and_how_far_that_was_off(several: Advice) -> None:
    by_window = {row.labels: row.values for row in rows(table(several, TITLE))}
    windows = [int(window) for line, window in by_window if line == "Qwen3-1.7B"]
    assert windows == [*range(2, 12)]
    assert by_window["Qwen3-1.7B", "4"][0][2:] == ("-", "")
    prospect = next(each for each in several.prospects if each.measured and each.window == 7)
    tokens, predicted, measured, error = by_window["Qwen3-1.7B", "7"][0]
    assert prospect.predicted
    assert prospect.measured
    assert tokens == f"{prospect.tokens_per_step:.2f}"
    assert predicted.split()[0] == phrases.speed(prospect.predicted).figure
    assert measured.split()[0] == phrases.speed(prospect.measured).figure
    off = 100 * (prospect.predicted.point / prospect.measured.point - 1)
    assert error == f"{off:+.1f} %".replace("-", "\N{MINUS SIGN}")
    alone = tuple(replace(each, predicted=None) for each in several.prospects if each.measured)
    (first, *_) = rows(table(replace(several, prospects=alone), TITLE))
    assert first.values[0][1::2] == ("-", "")


def test_costs_are_split_by_line_and_load(several: Advice) -> None:
    table_rows = rows(table(several, "A step, ms"))
    assert [row.labels for row in table_rows] == [
        (line.name, load) for line in several.lines for load in ("1", "4")
    ]
    assert table_rows[0].values[0] == (f"{1000 * several.costs[0].baseline:.1f}",)
    assert [len(values) for values in table_rows[0].values] == [1, 4]


def test_acceptance_has_the_steps_that_reached_a_position(several: Advice) -> None:
    first, *_ = rows(table(several, "Drafts accepted, of those reached"))
    position = several.acceptances[0].positions[0]
    assert position.interval
    low, high = position.interval
    share = f"{100 * position.accepted:.0f} %"
    assert first.values[0] == (share, f"{100 * low:.0f}-{100 * high:.0f}", f"{position.reached:,}")


@pytest.mark.parametrize(("shares", "expected"), [((1.0, 0.0), True), ((0.0, 1.0), False)])
def test_what_to_measure_next_is_said_once_and_of_classes_with_a_share(
    several: Advice, shares: tuple[float, float], expected: bool
) -> None:
    def predicted(of: Recommendation, window: int) -> Recommendation:
        choice = Choice("Qwen3-1.7B", window)
        return replace(of, choice=choice, measured=False, measure_next=f"Measure {window}.")

    structured, _, mixed = several.recommendations[:3]
    mix = tuple(zip(("structured", "open-ended"), shares, strict=True))
    best = (predicted(structured, 9), predicted(mixed, 5))
    changed = replace(several, mix=mix, recommendations=best)
    assert advice.measure_next(changed) == ("Measure 5.", "Measure 9.")[: 1 + expected]


def test_a_rehearsal_says_what_is_fastest_and_what_stood_in(
    sweep: Results, several: Advice
) -> None:
    rehearsal = replace(several, rehearsal=True)
    warning = "Not advice for Trainium: golden endpoints stood in for the services."
    assert advice.in_short(rehearsal, "golden endpoints") == (warning,)
    assert advice.measure_next(rehearsal) == ()
    text = html(sweep, rehearsal)
    assert text.index("Not advice for Trainium") < text.index("Fastest in this rehearsal")


def test_in_short_are_the_first_and_the_last_load(several: Advice) -> None:
    loads = [LoadPoint(concurrency=number, requests=number) for number in (1, 2, 4)]
    best = [replace(several.recommendations[-1], load=load, sentence=str(load)) for load in loads]
    for number, short in ((3, ("concurrency 1", "concurrency 4")), (1, ("concurrency 1",))):
        of = replace(several, recommendations=tuple(best[:number]))
        assert advice.in_short(of, None) == short
