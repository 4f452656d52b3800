"""Advice against sweeps whose truth is known: windows 3, 7 and 15.

How often its intervals hold the truth, ``tests.bench.advice`` says.
"""

from __future__ import annotations

import functools

import pytest

from rehearsal.golden.cost import Constant, Linear, Roofline
from spectap.analysis.advice.advice import Advice, Prospect
from spectap.analysis.advice.advise import advise
from tests.bench.sweeps import Sweep

TWO_DRAFTS = Sweep(
    "linear, two drafts",
    Linear(0.01),
    (0.02, 0.05),
    {"structured": (0.93, 0.97), "open-ended": (0.5, 0.65)},
    loads=(1, 8),
)
KNEE = Sweep("knee", Roofline(40), (0.03,), {"structured": (0.93,)}, loads=(1, 8))


@functools.cache
def advised(sweep: Sweep) -> Advice:
    return advise(sweep.config(), sweep.records())


def draft(sweep: Sweep, line: str | None) -> int:
    return [line.name for line in advised(sweep).lines].index(line or "")


def requests(prospect: Prospect) -> int:
    assert prospect.load is not None
    assert prospect.load.concurrency is not None
    return prospect.load.concurrency


def test_acceptance_is_within_2_points_where_it_is_reached_often() -> None:
    often = [
        (
            position,
            TWO_DRAFTS.acceptances[acceptance.prompt_class][draft(TWO_DRAFTS, acceptance.line)],
        )
        for acceptance in advised(TWO_DRAFTS).acceptances
        for position in acceptance.positions
        if position.reached >= 3000
    ]
    assert len(often) >= 7
    for position, truth in often:
        assert position.accepted == pytest.approx(truth, abs=0.02)
        assert position.interval is not None
        assert position.interval[0] <= position.accepted <= position.interval[1]


def test_a_step_takes_what_it_takes_at_every_window() -> None:
    """Predicted ones, too."""
    prospects = advised(TWO_DRAFTS).prospects
    assert len(prospects) == 14 * 2 * 2 * 2
    for prospect in prospects:
        decoding = TWO_DRAFTS.decoding(prospect.window, draft(TWO_DRAFTS, prospect.line))
        step = decoding.step_seconds(requests(prospect))
        assert prospect.step_seconds == pytest.approx(step, rel=0.02)
        assert (prospect.measured is not None) == (prospect.window in TWO_DRAFTS.windows)
        assert prospect.predicted is not None


def test_a_model_that_misses_what_was_measured_predicts_nothing() -> None:
    """Verification is free up to a knee between the measured windows: no line is straight there."""
    advice = advised(KNEE)
    assert {prospect.window for prospect in advice.prospects} == {3, 7, 15}
    assert {one.choice.window for one in advice.recommendations} <= {3, 7, 15}
    assert any("No other window of Qwen3-0.6B is predicted" in note for note in advice.notes)


def test_where_steps_cost_the_same_it_is_leviathans_equation() -> None:
    """(1 - a^(g+1)) / (1 - a) / (g c + 1), equation 1 and theorem 3.8 of 2211.17192."""
    cost, acceptance = 0.05, 0.8
    sweep = Sweep(
        "leviathan", Constant(), (cost,), {"structured": (acceptance,)}, tokens=4000, round=0.0
    )
    for prospect in advised(sweep).prospects:
        drafts = prospect.window - 1
        expected = (1 - acceptance ** (drafts + 1)) / (1 - acceptance) / (drafts * cost + 1)
        assert prospect.speedup.point == pytest.approx(expected, rel=0.02)
        assert prospect.predicted is not None
        assert prospect.predicted.point == pytest.approx(expected, rel=0.03)


def test_where_nothing_gains_it_is_off() -> None:
    useless = Sweep("useless", Linear(0.2), (0.3,), {"open-ended": (0.3,)}, loads=(4,))
    (recommendation,) = advised(useless).recommendations
    assert (recommendation.choice.line, recommendation.choice.window) == (None, None)
    assert recommendation.speedup.point == 1
    assert recommendation.probability > 0.99
    assert recommendation.sentence.startswith("Turn speculation off for open-ended prompts")
    assert recommendation.measure_next == ""


def test_of_prompts_that_differ_only_measured_windows_are_compared() -> None:
    """A mean acceptance would foretell too much: hard prompts take most of the steps."""
    sweep = Sweep(
        "prompts",
        Linear(0.01),
        (0.03,),
        {"coding": (0.75,)},
        tokens=300,
        prompts=24,
        spread=0.15,
        requests=24,
    )
    by_window = {prospect.window: prospect for prospect in advised(sweep).prospects}
    assert {*by_window} == {3, 7, 15}
    assert {prospect.predicted for prospect in by_window.values()} == {None}
    alike = sweep.speedup("coding", 15, 4)
    assert by_window[15].speedup.point != pytest.approx(alike, rel=0.06)
