"""Comparisons: what cancels between two sides, what is paired, and how unsure the ratio is."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from spectap.analysis import contrasts
from spectap.analysis.contrasts import Question
from spectap.analysis.estimates.estimate import Estimate, geometric_mean, jackknife
from spectap.load_points import LoadPoint
from spectap.record import Record
from tests.spectap import samples


def paced(scale: float, factors: list[float], requests: int = 4) -> list[Record]:
    """A round for each factor, in which each request takes ``scale`` times that factor."""
    return [
        samples.record(
            round=number,
            request=f"{number}-{index}",
            sent=1e9 + 1000 * number,
            chunks=tuple((scale * factor * at, tokens) for at, tokens in ((2, 1), (3, 4), (4, 3))),
            end=scale * factor * 5,
        )
        for number, factor in enumerate(factors, start=1)
        for index in range(requests)
    ]


def test_what_both_sides_of_a_round_share_cancels() -> None:
    minutes = [1.0, 1.7, 0.6, 1.2]
    found = contrasts.contrast(paced(0.5, minutes), paced(1.0, minutes))
    for estimate in (found.time_per_output_token, found.end_to_end, found.together):
        assert estimate is not None
        assert estimate.log == pytest.approx(math.log(2))
        assert estimate.error == pytest.approx(0, abs=1e-12)
    assert found.rounds == 4


def test_the_speed_up_is_the_geometric_mean_over_rounds() -> None:
    found = contrasts.contrast(paced(1.0, [1, 2, 4]), paced(1.0, [1, 1, 1]))
    assert found.throughput is not None
    assert found.throughput.log == pytest.approx(-math.log(2))
    assert found.throughput.units == 3


@pytest.mark.parametrize(
    "point", [LoadPoint(concurrency=4, requests=8), LoadPoint(rate=0.5, requests=8)]
)
def test_the_speed_of_a_request_has_its_first_token_in_it(point: LoadPoint) -> None:
    """Decoding takes half the time, and the first token makes the whole twice as long."""
    minutes = [1.0, 1.1, 0.9]
    base = paced(1.0, minutes)
    own = [
        replace(r, chunks=tuple((r.end + at / 2, n) for at, n in r.chunks), end=2 * r.end)
        for r in base
    ]
    found = contrasts.contrast(own, base, point=point)
    assert found.time_per_output_token is not None
    assert math.exp(found.time_per_output_token.log) == pytest.approx(2)
    assert math.exp(found.answers[Question.SPEED].log) == pytest.approx(1 / 2)


def test_a_round_without_an_answer_on_one_side_is_no_unit() -> None:
    own, baseline = paced(1.0, [1, 1, 1, 1]), paced(1.0, [1, 1, 1, 1])
    failed = [replace(r, error="reset", output_tokens=None) if r.round == 2 else r for r in own]
    found = contrasts.contrast(failed, baseline)
    assert found.rounds == 4
    assert found.throughput is not None
    assert found.throughput.units == 3
    # The time of a round in which all failed is paid for.
    assert found.together is not None
    assert found.together.units == 4
    assert math.exp(found.together.log) == pytest.approx(3 / 4)


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


def nested(scatter: float, seed: int = 1) -> dict[contrasts.Sending, float]:
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
        pairs = contrasts.sendings(own, base)
        assert {key: tuple(side[0].end for side in unit) for key, unit in pairs.items()} == {
            ("a", ("r", 1)): (own[0].end, base[1].end),
            ("b", ("r", 1)): (own[1].end, base[0].end),
            ("a", ("r", 2)): (own[2].end, base[2].end),
        }


class TestMean:
    def test_a_prompt_counts_once_however_often_it_was_sent(self) -> None:
        ratios = {("a", ("r", number)): 4.0 for number in ROUNDS}
        ratios |= {("b", ("r", 1)): 1.0, ("c", ("r", 2)): 1.0}
        assert math.exp(found(contrasts.mean_over_prompts(ratios)).log) == pytest.approx(
            4 ** (1 / 3)
        )

    def test_with_prompts_of_their_own_the_rounds_are_the_units(self) -> None:
        ratios = nested(0.2)
        by_round: dict[tuple[str, int], list[float]] = {}
        for (_, round_), ratio in ratios.items():
            by_round.setdefault(round_, []).append(ratio)
        means = [geometric_mean(own) for own in by_round.values()]
        of_rounds = found(jackknife(means, geometric_mean))
        assert found(contrasts.mean_over_prompts(ratios)).error == pytest.approx(of_rounds.error)
        assert found(contrasts.mean_over_prompts(ratios)).units == len(ROUNDS)

    def test_the_same_prompts_in_every_round_still_differ(self) -> None:
        ratios = {
            (name, ("r", round_)): 1.5 if number % 2 else 2.0
            for number, name in enumerate(NAMES)
            for round_ in ROUNDS
        }
        of_prompts = [1.5 if number % 2 else 2.0 for number in range(len(NAMES))]
        expected = found(jackknife(of_prompts, geometric_mean))
        assert found(contrasts.mean_over_prompts(ratios)).error == pytest.approx(
            expected.error, rel=0.1
        )


class TestContrast:
    def test_it_is_made_prompt_by_prompt(self) -> None:
        # A slow prompt is three times faster, a quick one not at all: medians over the round
        # would show either.
        own = [asked(name, r, pace) for r in ROUNDS for name, pace in (("a", 0.1), ("b", 0.05))]
        base = [
            asked(name, r, pace, "Base") for r in ROUNDS for name, pace in (("a", 0.3), ("b", 0.05))
        ]
        third = [asked("c", r, 0.1) for r in ROUNDS], [asked("c", r, 0.1, "Base") for r in ROUNDS]
        contrast = contrasts.contrast([*own, *third[0]], [*base, *third[1]])
        assert math.exp(found(contrast.throughput).log) == pytest.approx(3 ** (1 / 3))

    def test_the_cost_is_as_unsure_as_the_prompts_are(self) -> None:
        paces = np.random.default_rng(1).uniform(0.05, 0.2, len(NAMES))
        own = [asked(n, r, pace) for r in ROUNDS for n, pace in zip(NAMES, paces, strict=True)]
        base = [asked(name, r, 0.1, "Base") for r in ROUNDS for name in NAMES]
        same_in_all_rounds = found(contrasts.contrast(own, base).together)
        unnamed = [samples.record(**{**vars(one), "prompt": ""}) for one in own]
        assert found(contrasts.contrast(unnamed, base).together).error == pytest.approx(0, abs=1e-9)
        assert same_in_all_rounds.error > 0.05
