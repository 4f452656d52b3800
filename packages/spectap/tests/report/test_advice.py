"""Advice as it is shown: what to serve first, then the tables it rests on."""

from dataclasses import replace

import pytest

from spectap.analysis.advice.advice import Advice, Choice, Recommendation
from spectap.load_points import LoadPoint
from spectap.report import advice, page
from spectap.report.results import Results
from spectap.report.view import Row, Table
from tests.report.runs import section


@pytest.fixture(scope="module")
def several(sweep: Results) -> Advice:
    """At two loads."""
    assert sweep.advice
    return sweep.advice


def rows(table: Table) -> list[Row]:
    return [row for group in table.groups for row in group]


def html(run: Results, of: Advice) -> str:
    """The page's section of that advice."""
    changed = replace(run)
    changed.__dict__["advice"] = of
    return section(page.html(changed), "advice")


def test_the_page_says_first_what_to_serve(sweep: Results, several: Advice) -> None:
    best = [several.recommendations[2].sentence, several.recommendations[-1].sentence]
    titles = [table.title for table in advice.tables(several)]
    mix = "The mix is structured 67 % and open-ended 33 % of the output tokens"
    text = " ".join(html(sweep, several).split())
    order = [*best, "What to serve", mix, *titles, advice.BOTH_SPEEDS]
    places = [text.index(" ".join(phrase.split())) for phrase in order]
    assert places == sorted(places)


def test_no_speculation_has_no_speed_up(several: Advice) -> None:
    off = replace(several.recommendations[0], choice=Choice(None, None))
    (row,) = rows(advice.serve(replace(several, recommendations=(off,))))
    assert (row.labels[-1], row.values[0]) == ("no speculation", ("-", "", ""))


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
    # Another window is missing in the experiment, whatever stood in for its services.
    assert advice.measure_next(replace(rehearsal, measure_next=("Another.",))) == ("Another.",)
    text = html(sweep, rehearsal)
    assert text.index("Not advice for Trainium") < text.index("Fastest in this rehearsal")


def test_in_short_are_the_first_and_the_last_load(several: Advice) -> None:
    loads = [LoadPoint(concurrency=number, requests=number) for number in (1, 2, 4)]
    best = [replace(several.recommendations[-1], load=load, sentence=str(load)) for load in loads]
    for number, short in ((3, ("concurrency 1", "concurrency 4")), (1, ("concurrency 1",))):
        of = replace(several, recommendations=tuple(best[:number]))
        assert advice.in_short(of, None) == short
