"""How the parts of advice are written."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectap.analysis.advice.advice import Choice
from spectap.analysis.estimates.intervals import Interval
from spectap.load_points import LoadPoint
from spectap.report.advice import words
from tests.spectap.report import advised

ONE = advised.advice()
LOADS = [LoadPoint(concurrency=number, requests=number) for number in (1, 2, 4, 8, 16)]


@given(st.floats(0, 1))
def test_a_probability_is_never_quite_all_or_nothing(part: float) -> None:
    said = words.probability(part)
    number = int(re.sub(r"\D", "", said))
    assert 1 <= number <= 99
    if said[0] not in "<>":
        assert abs(100 * part - number) <= 0.5 + 1e-9


@pytest.mark.parametrize(
    ("found", "written"),
    [
        (None, ("-", "")),
        (Interval(2.9, 2.7, 3.1), ("2.9x", "2.7-3.1")),
        (Interval(2.912, 2.912, 2.912), ("2.91x", "")),
    ],
)
def test_a_speed_up_has_bounds_if_it_has_any_width(
    found: Interval | None, written: tuple[str, str]
) -> None:
    assert words.ratio(found) == written


def test_of_many_loads_three_have_a_figure() -> None:
    assert words.some_loads(advised.advice(LOADS)) == [LOADS[0], LOADS[2], LOADS[4]]
    assert words.some_loads(advised.advice(LOADS[:2])) == LOADS[:2]


def test_how_far_predictions_are_off() -> None:
    # Two in three windows lie 2 % below what was measured, one 3 % above.
    assert words.errors(ONE) == "They differ by 2.0 % in the median and 3.0 % at most."
    assert words.errors(advised.one_window()) == ""


def test_what_to_measure_next_is_said_once() -> None:
    several = advised.advice(LOADS[:3])
    assert [*words.measure_next(several)] == ["Measure Qwen3-1.7B and a window of 12."]
    best = replace(several.recommendations[0], choice=Choice("Qwen3-0.6B", 9), measured=False)
    with_another = replace(several, recommendations=(best, *several.recommendations[1:]))
    assert [*words.measure_next(with_another)][1:] == [
        "Measure Qwen3-0.6B with a window of 9: predicted to be the best somewhere."
    ]


def test_a_class_without_a_share_is_not_to_be_measured() -> None:
    advice = advised.advice()
    lost = replace(advice.recommendations[0], choice=Choice("Qwen3-0.6B", 9), measured=False)
    widest = replace(advice.recommendations[0], choice=Choice("Qwen3-0.6B", 7), measured=True)
    lines = tuple(replace(line, variants=line.variants[:2]) for line in advice.lines)
    for shares, amount in (((1.0, 0.0), 2), ((0.0, 1.0), 1)):
        mix = tuple(zip(("structured", "open-ended"), shares, strict=True))
        for first, some in ((lost, advice.lines), (widest, lines)):
            mixed = replace(
                advice,
                lines=some,
                mix=mix,
                recommendations=(first, *advice.recommendations[2:]),
            )
            assert len([*words.measure_next(mixed)]) == amount


def test_a_class_whose_best_is_the_widest_asks_for_a_wider_one() -> None:
    advice = advised.advice()
    widest = replace(advice.recommendations[0], choice=Choice("Qwen3-0.6B", 7), measured=True)
    lines = tuple(replace(line, variants=line.variants[:2]) for line in advice.lines)
    found = replace(advice, lines=lines, recommendations=(widest, *advice.recommendations[2:]))
    assert [*words.measure_next(found)][1:] == [
        "Measure Qwen3-0.6B with a window wider than 7: the widest one is the best so far."
    ]


def test_a_fixed_part_below_nothing_is_explained() -> None:
    advice = advised.advice()
    below = replace(advice.costs[0], fixed=-0.01)
    assert not any("below 0" in note for note in words.caveats(advice))
    assert any("below 0" in note for note in words.caveats(replace(advice, costs=(below,))))


def test_a_rehearsal_says_what_is_fastest_and_what_stood_in() -> None:
    advice = advised.advice(rehearsal=True)
    assert [*words.in_short(advice, "golden endpoints")] == [
        "Not advice for Trainium: golden endpoints stood in for the services."
    ]
    assert [*words.measure_next(advice)] == []
    assert [*words.said(advice)] == [
        "For the mix at concurrency 4, Qwen3-1.7B and a window of 12 is the fastest."
    ]


def test_in_short_are_the_first_and_the_last_load() -> None:
    short = [*words.in_short(advised.advice(LOADS), None)]
    assert [re.search(r"concurrency \d+", one)[0] for one in short] == [  # type: ignore[index]  # both name one
        "concurrency 1",
        "concurrency 16",
    ]
    assert len([*words.in_short(ONE, None)]) == 1
