"""Comparisons: what cancels between two sides, what is paired, and how unsure a ratio is."""

import math
from dataclasses import replace

import pytest

from spectap.analysis import contrasts
from spectap.analysis.contrasts import Question, Ratio
from spectap.analysis.estimate import Estimate
from spectap.analysis.over_cases import overall
from spectap.records.record import Record
from tests import samples


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
    for ratio in (Ratio.DECODING, Ratio.WHOLE, Ratio.TOGETHER):
        estimate = contrast.ratios[ratio]
        assert estimate.log == pytest.approx(math.log(2))
        assert estimate.error == pytest.approx(0, abs=1e-12)
    assert contrast.rounds == 4


def test_what_failed_and_was_measured_again_is_in_the_cost_alone() -> None:
    speculative, base = paced(0.5, [1.0, 1.1, 0.9]), paced(1.0, [1.0, 1.1, 0.9])
    hung = [replace(r, error="stalled", output_tokens=None, end=40) for r in speculative[:1]]
    billed = [*speculative, *hung, *speculative[1:4]], [*base, *base[:4]]
    again = contrasts.contrast(speculative, base, billed=billed)
    # 15 answers of 8 tokens in 40 + 37.5 s, against 16 in 80 s.
    cost = again.answers[Question.COST].log
    assert math.exp(cost) == pytest.approx(15 / 77.5 / (16 / 80))
    assert math.exp(again.answers[Question.SPEED].log) == pytest.approx(2)
    sides = dict.fromkeys("ab", (speculative, base))
    assert overall(sides, billed=dict.fromkeys("ab", billed))[Question.COST].log == pytest.approx(
        cost
    )


@pytest.mark.parametrize(
    ("lengths", "prompt", "differ"),
    [
        ([2.0, 1.9, 2.1], "", True),
        ([1.1, 0.9, 1.3], "", False),
        ([1.1, 0.9, 1.3], "p", True),
        ([1.01, 1.0, 1.02], "p", False),
    ],
    ids=["surely longer", "drawn with requests", "perhaps longer", "surely alike"],
)
def test_what_decides_the_cost_where_answers_differ(
    lengths: list[float], prompt: str, differ: bool
) -> None:
    base = [
        replace(r, prompt=prompt and r.request[-1], output_tokens=1000)
        for r in paced(1.0, [1.0] * 3)
    ]
    longer = [
        replace(r, output_tokens=int(1000 * lengths[r.round - 1]), end=r.end * lengths[r.round - 1])
        for r in base
    ]
    contrast = contrasts.contrast(longer, base)
    assert math.exp(known(contrast.lengths).log) == pytest.approx(sum(lengths) / 3)
    assert math.exp(contrast.ratios[Ratio.TOGETHER].log) == pytest.approx(1)
    per_answer = math.exp(contrast.answers[Question.COST].log)
    assert per_answer == pytest.approx(3 / sum(lengths) if differ else 1)


def known(estimate: Estimate | None) -> Estimate:
    assert estimate is not None
    return estimate


def test_a_prompt_is_paired_with_itself_in_its_round() -> None:
    sides = [("a", 1), ("b", 1), ("a", 2), ("c", 2)], [("b", 1), ("a", 1), ("a", 2)]
    speculative, base = (
        [samples.record(prompt=name, round=r, end=n) for n, (name, r) in enumerate(sent, start)]
        for start, sent in zip((1, 5), sides, strict=True)
    )
    pairs = contrasts.sendings(speculative, base)
    assert {key: tuple(side[0].end for side in unit) for key, unit in pairs.items()} == {
        ("a", ("r", 1)): (1, 6),
        ("b", ("r", 1)): (2, 5),
        ("a", ("r", 2)): (3, 7),
    }


def test_each_prompt_counts_once_however_often_it_was_sent() -> None:
    ratios = {("a", ("r", number)): 4.0 for number in range(1, 7)}
    ratios |= {("b", ("r", 1)): 1.0, ("c", ("r", 2)): 1.0}
    mean = known(contrasts.mean_over_prompts(ratios))
    assert math.exp(mean.log) == pytest.approx(4 ** (1 / 3))


STEADY, UNEVEN = [1.0, 1.0, 1.0, 1.0], [0.8, 1.2, 0.9, 1.1]


def test_a_mean_over_cases_is_no_surer_than_their_rounds_allow() -> None:
    single = {"a": (paced(0.5, UNEVEN), paced(1.0, STEADY))}
    alike = single | {"b": single["a"], "c": single["a"]}
    # Three cases that share their rounds' luck are no surer than one.
    assert overall(alike)[Question.SPEED].error == pytest.approx(
        overall(single)[Question.SPEED].error
    )
    sides = {
        "long": (paced(0.5, UNEVEN * 5), paced(1.0, STEADY * 5)),
        "short": (paced(0.5, UNEVEN[:3]), paced(1.0, STEADY[:3])),
    }
    assert overall(sides)[Question.SPEED].units == 3
