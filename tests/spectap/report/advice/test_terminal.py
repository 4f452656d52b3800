"""Advice in a terminal: first what to serve, as wide as there is room."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from spectap.analysis.advice.advice import Advice, Choice
from spectap.load_points import LoadPoint
from spectap.report.advice import terminal
from tests.spectap.report import advised

SEVERAL = advised.advice([advised.ALONE, advised.FOUR])
ONE = advised.advice()


def render(advice: Advice = ONE, width: int = 120) -> str:
    return terminal.render(advice, "Advice on article-sweep", None, width)


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize("advice", [ONE, SEVERAL, advised.one_window(), advised.one_window(None)])
def test_it_is_as_wide_as_the_terminal(advice: Advice, width: int) -> None:
    lines = render(advice, width).splitlines()
    assert max(map(len, lines)) == width


def test_it_is_neither_narrower_nor_wider_than_it_can_be_read() -> None:
    assert render(width=20) == render(width=80)
    assert render(width=300) == render(width=120)


def test_what_to_serve_comes_first() -> None:
    text = render()
    order = [
        "Advice on article-sweep",
        "Serve the mix at concurrency 4 with Qwen3-1.7B and a window of 12",
        "Next: Measure Qwen3-1.7B and a window of 12.",
        "What to serve",
        "The mix is structured 52 % and open-ended 48 %",
        "Speed-up by window at concurrency 4",
        "Drafts accepted, of those reached",
        "A step, ms",
        "* Tokens are those of a step",
        "* Position 14 was reached 38 times",
    ]
    places = [text.index(part) for part in order]
    assert places == sorted(places)


def rows(text: str, title: str) -> list[str]:
    """The lines of the table with that title, without heads and rules."""
    table = text[text.index(title) :].splitlines()
    rules = [number for number, line in enumerate(table) if line.startswith("──")]
    return [line for line in table[rules[0] + 1 : rules[1]] if line]


def windows(lines: list[str]) -> list[int]:
    return [int(found[1]) for line in lines if (found := re.match(r"\S* +(\d+) ", line))]


def test_every_window_is_shown_of_one_load_and_of_several_those_that_matter() -> None:
    assert windows(rows(render(), "Speed-up by window")) == 2 * [*range(2, 16)]
    for load in (1, 4):
        shown = windows(rows(render(SEVERAL), f"Speed-up by window at concurrency {load}"))
        # Measured, recommended, or likely to be better than what is.
        assert shown == [*advised.MEASURED, 3, 4, 5, 7, 11, 12, 13, 15]
    assert "* Other windows are in advice.json." in render(SEVERAL)
    assert "Other windows" not in render()


def test_a_measured_window_has_what_was_predicted_and_how_far_that_was_off() -> None:
    lines = rows(render(), "Speed-up by window")
    measured = lines[windows(lines).index(3)]
    assert re.search(r"2\.39 +1\.97x 1\.85-2\.08 +2\.0x 1\.9-2\.1 +\N{MINUS SIGN}2\.0 %", measured)


def test_a_window_alone_was_predicted_from_no_other() -> None:
    (row,) = rows(render(advised.one_window()), "Speed-up by window")
    assert "error" not in render(advised.one_window())
    assert re.search(r"Qwen3-1\.7B +7 +5\.22 +- +3\.3x", row)


def test_nothing_is_faster_than_no_speculation() -> None:
    off = tuple(replace(one, choice=Choice(None, None)) for one in ONE.recommendations)
    table = rows(render(replace(ONE, recommendations=off)), "What to serve")
    assert all(re.search(r"no speculation +- +71 %", line) for line in table)


def test_a_rate_is_a_load_as_well() -> None:
    rate = LoadPoint(rate=0.5, requests=8)
    text = render(advised.advice([advised.FOUR, rate]))
    assert "Speed-up by window at 0.5 requests a second" in text
    assert "\n0.5/s" in text
