"""The spread of a speed-up over prompts: quantiles, classes, and how much of it is chance."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import pytest

from spectap.analysis.compared.spread import spread
from spectap.analysis.estimates.estimate import ALPHA
from spectap.analysis.summary import Spread
from spectap.record import Record
from tests.spectap import samples

BASE_PACE = 0.1


def asked(prompt: str, round_: int, pace: float, variant: str, of: str) -> Record:
    return samples.record(
        variant=variant,
        prompt=prompt,
        prompt_class=of,
        round=round_,
        chunks=((pace, 1), (8 * pace, 7)),
        end=8 * pace,
    )


def spread_of(
    speeds: Mapping[str, Sequence[float]], classes: Mapping[str, str] | None = None
) -> Spread:
    """Of the speed-ups of each prompt in the rounds from the first on; dealt, if there is one."""
    classes = classes or {}
    own, base = [], []
    for number, (prompt, each) in enumerate(speeds.items()):
        for nth, speed in enumerate(each):
            round_ = number % 6 + 1 if len(each) == 1 else nth + 1
            of = classes.get(prompt, "")
            own.append(asked(prompt, round_, BASE_PACE / speed, "SD", of))
            base.append(asked(prompt, round_, BASE_PACE, "Base", of))
    found = spread(own, base, load=None, alpha=ALPHA)
    assert found is not None
    return found


def names(count: int) -> list[str]:
    return [f"p{number}" for number in range(count)]


def test_prompts_stand_from_the_slowest_to_the_fastest() -> None:
    found = spread_of({"a": [2.0], "b": [0.5], "c": [1.0]}, {"b": "hard"})
    assert [(name, of) for name, of, _ in found.prompts] == [("b", "hard"), ("c", ""), ("a", "")]
    assert [speed for *_, speed in found.prompts] == pytest.approx([0.5, 1.0, 2.0])
    assert (found.variant, found.baseline) == ("SD", "Base")


def test_what_was_sent_once_has_chance_in_it() -> None:
    found = spread_of(dict(zip(names(11), [[1.0 + 0.1 * n] for n in range(-1, 10)], strict=True)))
    assert found.sentence == (
        "Half of the 11 prompts are over 1.40x faster, the fastest tenth over 1.80x, the slowest "
        "under 1.00x; 1 is slower. Each was sent once, so some of that is chance."
    )


@pytest.mark.parametrize(
    ("speeds", "said"),
    [
        ([1.2 + 0.1 * n for n in range(11)], "fastest tenth over 2.10x, the slowest under 1.30x; "),
        ([0.5 + 0.2 * n for n in range(11)], "fastest tenth over 2.30x, the slowest over 1.43x s"),
        ([1 / (1.2 + 0.1 * n) for n in range(11)], "slowest tenth over 2.10x, the fastest under 1"),
        ([1 / (0.5 + 0.2 * n) for n in range(11)], "slowest tenth over 2.30x, the fastest over 1"),
    ],
)
def test_both_ends_are_said(speeds: list[float], said: str) -> None:
    found = spread_of({name: [speed] for name, speed in zip(names(11), speeds, strict=True)})
    assert f"x {'faster' if 'fastest tenth' in said else 'slower'}, the {said}" in found.sentence


def test_no_speed_up_is_said_as_such() -> None:
    found = spread_of({"a": [0.5], "b": [0.8], "c": [1.0], "d": [1.3], "e": [2.0]})
    assert found.sentence.startswith("Of the 5 prompts, 2 are faster and 3 slower. Each was sent")


def test_few_prompts_have_no_tenth() -> None:
    found = spread_of({"a": [0.5], "b": [0.8], "c": [0.9], "d": [2.0]})
    assert found.sentence.startswith("Half of the 4 prompts are over 1.18x slower; 1 is faster.")


def test_what_is_chance_is_taken_out_where_prompts_were_sent_again() -> None:
    chance = np.random.default_rng(1)
    true = np.exp(chance.normal(0.5, 0.2, 300))
    noisy = {
        name: [*(speed * np.exp(chance.normal(0, 0.4, 4)))]
        for name, speed in zip(names(300), true, strict=True)
    }
    sentence = spread_of(noisy).sentence
    assert sentence.endswith("Each was sent 4 times; what is chance in that is taken out.")
    lost = int(sentence.split("; ")[1].split()[0])
    raw = sum(np.mean(np.log(each)) < 0 for each in noisy.values())
    assert abs(lost - (true < 1).sum()) <= 3 < raw - lost


def test_prompts_that_differ_by_chance_alone_are_said_to_be_alike() -> None:
    found = spread_of(
        {name: [1.2, 1.4] if n % 2 else [1.4, 1.2] for n, name in enumerate(names(20))}
    )
    assert found.sentence == (
        "All 20 prompts are about 1.30x faster: they differ by no more than chance."
    )


def test_each_class_has_an_interval_of_its_own() -> None:
    speeds = {name: [1.5 + 0.01 * n] for n, name in enumerate(names(12))} | {"x": [0.9]}
    classes = dict.fromkeys(names(12), "easy") | {"x": "hard"}
    easy, hard = spread_of(speeds, classes).classes
    assert (easy.name, easy.prompts, hard.name, hard.prompts) == ("easy", 12, "hard", 1)
    assert easy.speed is not None
    assert easy.speed.low < math.exp(np.mean(np.log([s for (s,) in speeds.values()][:12])))
    assert hard.speed is None


def test_without_names_there_is_none() -> None:
    assert (
        spread(
            [samples.record()],
            [samples.record(variant="Base")],
            load=None,
            alpha=ALPHA,
        )
        is None
    )
