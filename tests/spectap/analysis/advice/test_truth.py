"""Advice against sweeps whose truth is known: windows 3, 7 and 15 of five settings."""

from __future__ import annotations

import functools

import pytest

from rehearsal.golden.cost import Constant, Linear, Roofline, Rounded
from spectap.analysis.advice.advice import Advice, Prospect
from spectap.analysis.advice.advise import advise
from tests.bench.sweeps import Sweep

ONE_DRAFT = {"structured": (0.93,), "open-ended": (0.55,)}
TWO_DRAFTS = {"structured": (0.93, 0.97), "open-ended": (0.5, 0.65)}

SETTINGS = (
    Sweep("constant", Constant(), (0.037,), ONE_DRAFT),
    Sweep("linear", Linear(0.04), (0.037,), ONE_DRAFT, loads=(1, 4)),
    Sweep("linear, two drafts", Linear(0.01), (0.02, 0.05), TWO_DRAFTS, loads=(1, 8)),
    Sweep("roofline", Roofline(40), (0.03,), ONE_DRAFT, loads=(1, 4, 8)),
    Sweep("rounded", Rounded(30), (0.03, 0.06), TWO_DRAFTS, loads=(2, 8)),
)


@functools.cache
def advised(sweep: Sweep) -> Advice:
    return advise(sweep.config(), sweep.records())


def draft(sweep: Sweep, line: str | None) -> int:
    return [one.name for one in advised(sweep).lines].index(line or "")


def requests(one: Prospect) -> int:
    assert one.load is not None
    assert one.load.concurrency is not None
    return one.load.concurrency


settings = pytest.mark.parametrize("sweep", SETTINGS, ids=lambda sweep: sweep.name)


@settings
def test_acceptance_is_within_2_points_where_it_is_reached_often(sweep: Sweep) -> None:
    shown = 0
    for one in advised(sweep).acceptances:
        truth = sweep.acceptances[one.prompt_class][draft(sweep, one.line)]
        for position in one.positions:
            if position.reached >= 3000:
                shown += 1
                assert position.accepted == pytest.approx(truth, abs=0.02)
                assert position.interval is not None
                assert position.interval[0] <= position.accepted <= position.interval[1]
    assert shown >= 7


@settings
def test_the_interval_of_a_rarer_position_mostly_holds_the_truth(sweep: Sweep) -> None:
    """Positions of one line follow each other, so the bar is far below 95 %."""
    held = [
        position.interval[0] <= sweep.acceptances[one.prompt_class][draft(sweep, one.line)]
        and sweep.acceptances[one.prompt_class][draft(sweep, one.line)] <= position.interval[1]
        for one in advised(sweep).acceptances
        for position in one.positions
        if position.reached < 3000 and position.interval is not None
    ]
    assert held
    assert sum(held) >= 0.8 * len(held)


@settings
def test_a_step_takes_what_it_takes_at_every_window(sweep: Sweep) -> None:
    """Predicted ones, too, though a target's pass grows in four different ways."""
    prospects = advised(sweep).prospects
    lines, classes = len(sweep.draft_costs), len(sweep.acceptances)
    assert len(prospects) == 14 * lines * classes * len(sweep.loads)
    for one in prospects:
        decoding = sweep.decoding(one.window, draft(sweep, one.line))
        assert one.step_seconds == pytest.approx(decoding.step_seconds(requests(one)), rel=0.02)
        assert (one.measured is not None) == (one.window in sweep.windows)


@settings
def test_the_best_window_is_recommended_or_one_as_good(sweep: Sweep) -> None:
    found = [one for one in advised(sweep).recommendations if one.prompt_class is not None]
    assert len(found) == len(sweep.acceptances) * len(sweep.loads)
    for one in found:
        assert one.load is not None
        assert one.load.concurrency is not None
        assert one.choice.window is not None
        own = sweep.speedup(
            one.prompt_class or "",
            one.choice.window,
            one.load.concurrency,
            draft(sweep, one.choice.line),
        )
        assert own >= 0.98 * sweep.best(one.prompt_class or "", one.load.concurrency)


@settings
def test_a_measured_window_is_foretold_by_the_others(sweep: Sweep) -> None:
    """Window 7 of 3 and 15: of the three, the only one between two others."""
    compared = [one for one in advised(sweep).prospects if one.window == 7]
    for one in compared:
        assert one.measured is not None
        assert one.predicted is not None
        assert one.predicted.point == pytest.approx(one.measured.point, rel=0.15)
    assert compared


@pytest.mark.parametrize("acceptance", [0.6, 0.8, 0.95])
def test_where_steps_cost_the_same_it_is_leviathans_equation(acceptance: float) -> None:
    """(1 - a^(g+1)) / (1 - a) / (g c + 1), equation 1 and theorem 3.8 of 2211.17192."""
    cost = 0.05
    sweep = Sweep(
        "leviathan", Constant(), (cost,), {"structured": (acceptance,)}, tokens=4000, round=0.0
    )
    for one in advised(sweep).prospects:
        drafts = one.window - 1
        expected = (1 - acceptance ** (drafts + 1)) / (1 - acceptance) / (drafts * cost + 1)
        assert one.speedup.point == pytest.approx(expected, rel=0.02)
        if one.predicted is not None:
            assert one.predicted.point == pytest.approx(expected, rel=0.03)


def test_drafting_is_told_from_verification_by_several_loads() -> None:
    """To 15 %: the split is a part of a small difference between steps, which are known to 2 %."""
    for sweep in SETTINGS[1:]:
        for one in advised(sweep).costs:
            assert one.load is not None
            decoding = sweep.decoding(15, draft(sweep, one.line))
            target = decoding.token_seconds * sweep.cost.of(one.load.concurrency or 1)
            assert one.drafting == pytest.approx(decoding.draft_cost * target, rel=0.15)
            assert "to verify it" in one.sentence


def test_one_load_does_not_tell_drafting_from_verification() -> None:
    (one,) = advised(SETTINGS[0]).costs
    assert one.drafting is None
    assert "At one load" in one.sentence


def test_steps_that_take_as_long_at_every_load_do_not_either() -> None:
    one, other = advised(Sweep("flat", acceptances=ONE_DRAFT, loads=(1, 8))).costs
    assert one.drafting is other.drafting is None
    assert "computes its whole batch" in one.sentence


def test_where_nothing_gains_it_is_off() -> None:
    useless = Sweep("useless", Linear(0.2), (0.3,), {"open-ended": (0.3,)}, loads=(4,))
    (found,) = advised(useless).recommendations
    assert (found.choice.line, found.choice.window) == (None, None)
    assert found.speedup.point == 1
    assert found.probability is not None
    assert found.probability > 0.99
    assert found.sentence.startswith("Turn speculation off for open-ended prompts")
    assert found.measure_next == ""


def test_prompts_that_differ_add_up_by_their_tokens() -> None:
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
    found = {one.window: one for one in advised(sweep).prospects}
    for window in (3, 7, 15):
        one = found[window]
        assert one.measured is not None
        assert one.predicted is not None
        assert one.predicted.point == pytest.approx(one.measured.point, rel=0.06)
    alike = sweep.speedup("coding", 15, 4)
    assert found[15].speedup.point != pytest.approx(alike, rel=0.06)
