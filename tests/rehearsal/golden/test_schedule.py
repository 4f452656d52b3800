"""The schedule's own arithmetic: what a batch costs, and where speculation stops paying."""

from __future__ import annotations

import pytest

from rehearsal.golden import cost
from rehearsal.golden.cost import Constant, Cost, Linear, Roofline, Rounded
from rehearsal.golden.schedule import Decoding, crossover, speed_up

MODELS = (Constant(), Linear(0.02), Roofline(24), Rounded(24))


def pair(model: Cost) -> tuple[Decoding, Decoding]:
    return Decoding(window=1, cost=model), Decoding(window=7, cost=model)


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


def test_the_last_step_yields_more_than_the_answer_takes() -> None:
    *steps, last = Decoding(window=5, speed=10).steps(20, 1.0, "x")
    step = Decoding(window=5, speed=10).step_seconds()
    assert [each.at for each in steps] == pytest.approx([0.02 + n * step for n in range(4)])
    assert [(step.tokens, step.beyond) for step in steps] == [(1, 0), (5, 0), (5, 0), (5, 0)]
    assert (last.tokens, last.beyond) == (4, 1)


@pytest.mark.parametrize("model", MODELS[1:])
def test_the_speed_up_is_one_at_the_crossover(model: Cost) -> None:
    base, fused = pair(model)
    at = crossover(base, fused, 0.8, most=64)
    assert at is not None
    assert speed_up(base, fused, 0.8, at) == pytest.approx(1)
    assert speed_up(base, fused, 0.8, at / 1.2) > 1 > speed_up(base, fused, 0.8, at * 1.2)


@pytest.mark.parametrize(("model", "acceptance"), [(Constant(), 0.8), (Linear(0.02), 0.1)])
def test_there_is_none_where_a_batch_is_free_or_speculation_never_pays(
    model: Cost, acceptance: float
) -> None:
    assert crossover(*pair(model), acceptance, most=1000) is None


@pytest.mark.parametrize("model", MODELS)
def test_a_model_survives_the_command_line(model: Cost) -> None:
    assert cost.parse(cost.argument(model)) == model


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("cubic:2", "allowed are constant, linear"),
        ("linear", "takes 1 number above 0"),
        ("linear:-1", "1 number above 0"),
        ("linear:x", "1 number above 0"),
    ],
)
def test_a_model_that_is_not_known(text: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        cost.parse(text)
