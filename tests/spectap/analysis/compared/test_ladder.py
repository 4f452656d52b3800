"""The sentence on a ladder says what the crossovers are, and nothing that they are not."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest

from spectap.analysis.compared.claims import Question
from spectap.analysis.compared.crossover import Rung
from spectap.analysis.compared.ladder import ladder, ladder_points
from spectap.analysis.estimates.estimate import ALPHA, Estimate
from spectap.analysis.summary import Answer, Ladder
from spectap.load_points import LoadPoint

CLOSED = tuple(LoadPoint(concurrency=number, requests=4) for number in (1, 2, 4, 8))
OPEN = tuple(LoadPoint(rate=rate, requests=4) for rate in (0.5, 1.0, 2.0, 4.0))
FALLING = (1.5, 1.2, 0.9, 0.8)


def rungs(loads: Sequence[LoadPoint], ratios: Sequence[float | None]) -> list[Rung]:
    """Sure of each ratio, and each decided."""
    return [
        Rung(
            load.rate or load.concurrency or 0,
            None if ratio is None else Estimate(math.log(ratio), 0.001, 6),
            None if ratio is None else Answer.BETTER if ratio > 1 else Answer.WORSE,
        )
        for load, ratio in zip(loads, ratios, strict=True)
    ]


def closed(speed: Sequence[float | None], cost: Sequence[float | None] = FALLING) -> Ladder:
    known = {Question.SPEED: rungs(CLOSED, speed), Question.COST: rungs(CLOSED, cost)}
    return ladder("SD", "Base", CLOSED, known, ALPHA)


def test_both_questions_are_answered() -> None:
    found = closed((2, 1.5, 1.2, 0.9), FALLING)
    assert found.sentence == (
        "SD answers requests faster than Base "
        "up to 4 requests at once, and slower than Base from 8 on; they are "
        "equally fast at about 6.2 (95 % interval 4-8). It gains throughput up to 2 requests at "
        "once, and costs throughput from 4 on; both have the same at about 3.1 (95 % interval 2-4)."
    )
    assert (found.speed.better_up_to, found.cost.better_up_to) == (4, 2)
    assert found.speed.found


def test_a_speed_without_those_that_failed_is_not_that_of_every_load() -> None:
    known = {Question.SPEED: rungs(CLOSED, (1.5, 1.4, 1.3, 1.2))}
    clause = "3 of 18 SD requests failed at 4 at once"
    assert ladder("SD", "Base", CLOSED, known, ALPHA, [clause], failed=True).sentence == (
        "SD answers requests faster than Base wherever they succeed, up to 8 requests at once. "
        f"{clause}."
    )


def test_an_open_loop_is_asked_for_speed_alone() -> None:
    known = {Question.SPEED: rungs(OPEN, FALLING)}
    found = ladder("SD", "Base", OPEN, known, ALPHA, ["SD requests queue from 4 a second"])
    assert found.sentence == (
        "SD answers requests faster than Base "
        "up to 1 request a second, and slower than Base from 2 on; they are "
        "equally fast at about 1.6 (95 % interval 1-2). SD requests queue from 4 a second."
    )
    assert found.open
    assert not found.cost.found


@pytest.mark.parametrize(
    ("ratios", "sentence"),
    [
        (
            (1.5, 1.4, 1.3, 1.2),
            "SD answers requests faster than Base "
            "at every load, up to 8 requests at once: no crossover.",
        ),
        (
            (0.9, 0.8, 0.8, 0.7),
            "SD answers requests slower than Base "
            "at every load, from 1 request at once on: no crossover.",
        ),
        (
            (1.5, 1.4, 1.0, 1.0),
            "SD answers requests faster than Base "
            "up to 2 requests at once; above that, whether it is faster or "
            "slower cannot be told.",
        ),
        (
            (1.0, 1.0, 0.8, 0.7),
            "SD answers requests slower than Base "
            "from 4 requests at once on; below that, whether it is faster "
            "or slower cannot be told.",
        ),
        (
            (1.0, 1.0, 1.0, 1.0),
            "Up to which load SD answers requests faster than Base cannot be told.",
        ),
        (
            (0.8, 0.9, 1.1, 1.2),
            "As the load grows it turns back: SD answers requests slower than Base at 1 and 2 "
            "requests at once, "
            "faster than Base at 4 and 8 requests at once.",
        ),
        (
            (1.5, 1.2, 1.1, None),
            "SD answers requests faster than Base "
            "at every load that has a verdict, up to 4 requests at once. "
            "There is no verdict at 8 requests at once.",
        ),
        (
            (None, 0.9, None, 0.8),
            "SD answers requests slower than Base "
            "at every load that has a verdict, from 2 requests at once on. "
            "There is no verdict at 1 and 4 requests at once.",
        ),
        ((None, None, None, None), ""),
    ],
)
def test_sentences(ratios: Sequence[float | None], sentence: str) -> None:
    known = rungs(CLOSED, ratios)
    undecided = [
        Rung(rung.load, rung.estimate, Answer.UNDECIDED if ratio == 1 else rung.answer)
        for rung, ratio in zip(known, ratios, strict=True)
    ]
    found = ladder("SD", "Base", CLOSED, {Question.SPEED: undecided}, ALPHA)
    assert found.sentence.startswith(sentence)
    unknown = "There is no verdict at" in found.sentence
    assert unknown == (None in ratios)
    assert found.whole != unknown


def test_a_kind_with_one_load_has_no_ladder() -> None:
    assert [*ladder_points([*reversed(CLOSED), OPEN[0]])] == [CLOSED]
    assert [*ladder_points([*OPEN, *CLOSED])] == [CLOSED, OPEN]
    assert [*ladder_points([])] == []
