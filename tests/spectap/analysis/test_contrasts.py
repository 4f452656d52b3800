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
    contrast = contrasts.contrast(paced(0.5, minutes), paced(1.0, minutes))
    for estimate in (contrast.time_per_output_token, contrast.end_to_end, contrast.together):
        assert estimate is not None
        assert estimate.log == pytest.approx(math.log(2))
        assert estimate.error == pytest.approx(0, abs=1e-12)
    assert contrast.rounds == 4


def test_the_speed_up_is_the_geometric_mean_over_rounds() -> None:
    contrast = contrasts.contrast(paced(1.0, [1, 2, 4]), paced(1.0, [1, 1, 1]))
    assert contrast.throughput is not None
    assert contrast.throughput.log == pytest.approx(-math.log(2))
    assert contrast.throughput.units == 3


@pytest.mark.parametrize(
    "point", [LoadPoint(concurrency=4, requests=8), LoadPoint(rate=0.5, requests=8)]
)
def test_the_speed_of_a_request_has_its_first_token_in_it(point: LoadPoint) -> None:
    """Decoding takes half the time, and the first token makes the whole twice as long."""
    minutes = [1.0, 1.1, 0.9]
    base = paced(1.0, minutes)
    speculative = [
        replace(r, chunks=tuple((r.end + at / 2, n) for at, n in r.chunks), end=2 * r.end)
        for r in base
    ]
    contrast = contrasts.contrast(speculative, base, point=point)
    assert contrast.time_per_output_token is not None
    assert math.exp(contrast.time_per_output_token.log) == pytest.approx(2)
    assert math.exp(contrast.answers[Question.SPEED].log) == pytest.approx(1 / 2)


def test_a_round_without_an_answer_on_one_side_is_no_unit() -> None:
    speculative, baseline = paced(1.0, [1, 1, 1, 1]), paced(1.0, [1, 1, 1, 1])
    failed = [
        replace(r, error="reset", output_tokens=None) if r.round == 2 else r for r in speculative
    ]
    contrast = contrasts.contrast(failed, baseline)
    assert contrast.rounds == 4
    assert contrast.throughput is not None
    assert contrast.throughput.units == 3
    # The time of a round in which all failed is paid for.
    assert contrast.together is not None
    assert contrast.together.units == 4
    assert math.exp(contrast.together.log) == pytest.approx(3 / 4)


ROUNDS = range(1, 7)
NAMES = [f"p{number}" for number in range(12)]


def request(prompt: str, round_: int, pace: float, variant: str = "SD") -> Record:
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


def known(estimate: Estimate | None) -> Estimate:
    assert estimate is not None
    return estimate


class TestSendings:
    def test_a_prompt_is_paired_with_itself_in_its_round(self) -> None:
        speculative = [
            request("a", 1, 0.1),
            request("b", 1, 0.2),
            request("a", 2, 0.3),
            request("c", 2, 0.4),
        ]
        base = [
            request("b", 1, 0.5, "Base"),
            request("a", 1, 0.6, "Base"),
            request("a", 2, 0.7, "Base"),
        ]
        pairs = contrasts.sendings(speculative, base)
        assert {key: tuple(side[0].end for side in unit) for key, unit in pairs.items()} == {
            ("a", ("r", 1)): (speculative[0].end, base[1].end),
            ("b", ("r", 1)): (speculative[1].end, base[0].end),
            ("a", ("r", 2)): (speculative[2].end, base[2].end),
        }


class TestMean:
    def test_a_prompt_counts_once_however_often_it_was_sent(self) -> None:
        ratios = {("a", ("r", number)): 4.0 for number in ROUNDS}
        ratios |= {("b", ("r", 1)): 1.0, ("c", ("r", 2)): 1.0}
        assert math.exp(known(contrasts.mean_over_prompts(ratios)).log) == pytest.approx(
            4 ** (1 / 3)
        )

    def test_with_prompts_of_their_own_the_rounds_are_the_units(self) -> None:
        ratios = nested(0.2)
        by_round: dict[tuple[str, int], list[float]] = {}
        for (_, round_), ratio in ratios.items():
            by_round.setdefault(round_, []).append(ratio)
        means = [geometric_mean(values) for values in by_round.values()]
        of_rounds = known(jackknife(means, geometric_mean))
        assert known(contrasts.mean_over_prompts(ratios)).error == pytest.approx(of_rounds.error)
        assert known(contrasts.mean_over_prompts(ratios)).units == len(ROUNDS)

    def test_the_same_prompts_in_every_round_still_differ(self) -> None:
        ratios = {
            (name, ("r", round_)): 1.5 if number % 2 else 2.0
            for number, name in enumerate(NAMES)
            for round_ in ROUNDS
        }
        of_prompts = [1.5 if number % 2 else 2.0 for number in range(len(NAMES))]
        expected = known(jackknife(of_prompts, geometric_mean))
        assert known(contrasts.mean_over_prompts(ratios)).error == pytest.approx(
            expected.error, rel=0.1
        )


class TestContrast:
    def test_it_is_made_prompt_by_prompt(self) -> None:
        # A slow prompt is three times faster, a quick one not at all: medians over the round
        # would show either.
        speculative = [
            request(name, r, pace) for r in ROUNDS for name, pace in (("a", 0.1), ("b", 0.05))
        ]
        base = [
            request(name, r, pace, "Base")
            for r in ROUNDS
            for name, pace in (("a", 0.3), ("b", 0.05))
        ]
        third = (
            [request("c", r, 0.1) for r in ROUNDS],
            [request("c", r, 0.1, "Base") for r in ROUNDS],
        )
        contrast = contrasts.contrast([*speculative, *third[0]], [*base, *third[1]])
        assert math.exp(known(contrast.throughput).log) == pytest.approx(3 ** (1 / 3))

    def test_the_cost_is_as_unsure_as_the_prompts_are(self) -> None:
        paces = np.random.default_rng(1).uniform(0.05, 0.2, len(NAMES))
        speculative = [
            request(n, r, pace) for r in ROUNDS for n, pace in zip(NAMES, paces, strict=True)
        ]
        base = [request(name, r, 0.1, "Base") for r in ROUNDS for name in NAMES]
        same_in_all_rounds = known(contrasts.contrast(speculative, base).together)
        unnamed = [samples.record(**{**vars(record), "prompt": ""}) for record in speculative]
        assert known(contrasts.contrast(unnamed, base).together).error == pytest.approx(0, abs=1e-9)
        assert same_in_all_rounds.error > 0.05
