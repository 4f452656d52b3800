"""The schedule's own arithmetic: what a batch costs, and where speculation stops paying."""

from __future__ import annotations

import pytest

from rehearsal.golden.cost import Constant, Cost, Linear, Roofline, Rounded
from rehearsal.golden.schedule import Decoding

MODELS = (Constant(), Linear(0.02), Roofline(24), Rounded(24))


@pytest.mark.parametrize("model", MODELS)
def test_a_pass_over_one_token_is_the_unit(model: Cost) -> None:
    assert model.of(1) == pytest.approx(1)
    assert Decoding(cost=model).step_seconds() == pytest.approx(0.045)
    lengths = [model.of(tokens) for tokens in (1, 8, 64, 512)]
    assert lengths == sorted(lengths)
    assert (lengths[-1] > 2) == (model != Constant())


def test_a_step_drafts_at_width_one_and_verifies_at_the_window() -> None:
    decoding = Decoding(window=7, draft_cost=0.1, token_seconds=1, cost=Linear(0.01))
    # 28 positions: 1.27 passes; six drafts of 4 positions: 0.103 each.
    assert decoding.step_seconds(4) == pytest.approx(1.27 + 0.6 * 1.03)
    assert decoding.slowdown(4) == pytest.approx((1.27 + 0.6 * 1.03) / (1.06 + 0.6))


def test_a_window_of_which_nothing_is_kept_drafts_one_more_and_yields_one_more() -> None:
    nxdi, upstream = Decoding(window=7), Decoding(window=6, undrafted=0)
    assert upstream.drafts == nxdi.drafts == 6
    assert upstream.step_seconds(4) == nxdi.step_seconds(4)
    assert [*upstream.steps(99, 0.9, "x")] == [*nxdi.steps(99, 0.9, "x")]
    assert max(step.tokens for step in upstream.steps(9_999, 0.9, "x")) == 7
    assert upstream.plain == nxdi.plain == Decoding()


@pytest.mark.parametrize("acceptance", [0.0, 0.52, 0.97])
def test_a_step_yields_what_the_theory_expects(acceptance: float) -> None:
    decoding = Decoding(window=7)
    _, *steps, _ = decoding.steps(20_000, acceptance, seed=1)
    assert {step.tokens for step in steps} <= set(range(1, 8))
    mean = sum(step.tokens for step in steps) / len(steps)
    assert mean == pytest.approx(decoding.tokens_per_step(acceptance), rel=0.03)


def test_the_last_step_yields_more_than_the_answer_takes() -> None:
    *steps, last = Decoding(window=5, speed=10).steps(20, 1.0, "x")
    step = Decoding(window=5, speed=10).step_seconds()
    assert [each.at for each in steps] == pytest.approx([0.02 + n * step for n in range(4)])
    assert [(step.tokens, step.beyond) for step in steps] == [(1, 0), (5, 0), (5, 0), (5, 0)]
    assert (last.tokens, last.beyond) == (4, 1)


@pytest.mark.parametrize("model", MODELS[1:])
def test_a_full_batch_ends_the_gain(model: Cost) -> None:
    fused = Decoding(window=7, cost=model)
    assert fused.gain(0.8, 1) > 1 > fused.gain(0.8, 64)
    assert Decoding(window=7).gain(0.8, 64) > 1
