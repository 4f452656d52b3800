"""Means over prompts with names: what is paired with what, and what makes them unsure."""

from __future__ import annotations

import math

import numpy as np
import pytest

from spectap.analysis.compared import claims, prompts
from spectap.analysis.estimates.estimate import Estimate, geometric_mean, jackknife
from spectap.record import Record
from tests.spectap import samples

ROUNDS = range(1, 7)
NAMES = [f"p{number}" for number in range(12)]


def asked(prompt: str, round_: int, pace: float, variant: str = "SD") -> Record:
    """A request of eight tokens, each of which takes ``pace`` seconds."""
    return samples.record(
        variant=variant,
        prompt=prompt,
        round=round_,
        chunks=((pace, 1), (8 * pace, 7)),
        end=8 * pace,
    )


def nested(scatter: float, seed: int = 1) -> dict[prompts.Sending, float]:
    """Two prompts of their own in each round; rounds scatter, and prompts scatter."""
    chance = np.random.default_rng(seed)
    ratios = {}
    for number, name in enumerate(NAMES):
        round_ = number % len(ROUNDS) + 1
        ratios[name, ("r", round_)] = math.exp(scatter * chance.normal())
    return ratios


def found(estimate: Estimate | None) -> Estimate:
    assert estimate is not None
    return estimate


class TestSendings:
    def test_a_prompt_is_paired_with_itself_in_its_round(self) -> None:
        own = [asked("a", 1, 0.1), asked("b", 1, 0.2), asked("a", 2, 0.3), asked("c", 2, 0.4)]
        base = [asked("b", 1, 0.5, "Base"), asked("a", 1, 0.6, "Base"), asked("a", 2, 0.7, "Base")]
        pairs = prompts.sendings(own, base)
        assert {key: tuple(side[0].end for side in unit) for key, unit in pairs.items()} == {
            ("a", ("r", 1)): (own[0].end, base[1].end),
            ("b", ("r", 1)): (own[1].end, base[0].end),
            ("a", ("r", 2)): (own[2].end, base[2].end),
        }

    def test_one_request_without_a_name_makes_none_of_them_named(self) -> None:
        assert prompts.named([asked("a", 1, 0.1)], [asked("a", 1, 0.1)])
        assert not prompts.named([asked("a", 1, 0.1), asked("", 1, 0.1)], [asked("a", 1, 0.1)])
        assert not prompts.named([], [asked("a", 1, 0.1)])


class TestMean:
    def test_a_prompt_counts_once_however_often_it_was_sent(self) -> None:
        ratios = {("a", ("r", number)): 4.0 for number in ROUNDS}
        ratios |= {("b", ("r", 1)): 1.0, ("c", ("r", 2)): 1.0}
        assert math.exp(found(prompts.mean(ratios)).log) == pytest.approx(4 ** (1 / 3))

    def test_with_prompts_of_their_own_the_rounds_are_the_units(self) -> None:
        ratios = nested(0.2)
        by_round: dict[tuple[str, int], list[float]] = {}
        for (_, round_), ratio in ratios.items():
            by_round.setdefault(round_, []).append(ratio)
        means = [geometric_mean(own) for own in by_round.values()]
        of_rounds = found(jackknife(means, geometric_mean))
        assert found(prompts.mean(ratios)).error == pytest.approx(of_rounds.error)
        assert found(prompts.mean(ratios)).units == len(ROUNDS)

    def test_the_same_prompts_in_every_round_still_differ(self) -> None:
        ratios = {
            (name, ("r", round_)): 1.5 if number % 2 else 2.0
            for number, name in enumerate(NAMES)
            for round_ in ROUNDS
        }
        of_prompts = [1.5 if number % 2 else 2.0 for number in range(len(NAMES))]
        expected = found(jackknife(of_prompts, geometric_mean))
        assert found(prompts.mean(ratios)).error == pytest.approx(expected.error, rel=0.1)

    def test_few_rounds_have_none_unless_nobody_planned_any(self) -> None:
        ratios = {(name, ("r", 1)): 1.0 + number for number, name in enumerate(NAMES)}
        assert prompts.mean(ratios) is None
        assert found(prompts.mean(ratios, planned=False)).units == len(NAMES)
        assert prompts.mean({}, planned=False) is None


class TestContrast:
    def test_it_is_made_prompt_by_prompt(self) -> None:
        # A slow prompt is three times faster, a quick one not at all: medians over the round
        # would show either.
        own = [asked(name, r, pace) for r in ROUNDS for name, pace in (("a", 0.1), ("b", 0.05))]
        base = [
            asked(name, r, pace, "Base") for r in ROUNDS for name, pace in (("a", 0.3), ("b", 0.05))
        ]
        third = [asked("c", r, 0.1) for r in ROUNDS], [asked("c", r, 0.1, "Base") for r in ROUNDS]
        contrast = claims.contrast([*own, *third[0]], [*base, *third[1]])
        assert math.exp(found(contrast.throughput).log) == pytest.approx(3 ** (1 / 3))

    def test_the_cost_is_as_unsure_as_the_prompts_are(self) -> None:
        paces = np.random.default_rng(1).uniform(0.05, 0.2, len(NAMES))
        own = [asked(n, r, pace) for r in ROUNDS for n, pace in zip(NAMES, paces, strict=True)]
        base = [asked(name, r, 0.1, "Base") for r in ROUNDS for name in NAMES]
        same_in_all_rounds = found(claims.contrast(own, base).together)
        unnamed = [samples.record(**{**vars(one), "prompt": ""}) for one in own]
        assert found(claims.contrast(unnamed, base).together).error == pytest.approx(0, abs=1e-9)
        assert same_in_all_rounds.error > 0.05
