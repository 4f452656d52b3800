"""Advice is as sure as it says: ``python -m tests.bench.advice`` in short, with fixed seeds."""

from __future__ import annotations

import functools

from rehearsal.golden.cost import Linear
from tests.bench.advice import LOWEST, NEAR, SELDOM, Judged, drawn, judge
from tests.bench.sweeps import Sweep
from tests.bench.trials import likely

SWEEPS = 8


@functools.cache
def judged() -> list[Judged]:
    return [judge(drawn(number), number) for number in range(SWEEPS)]


def test_what_is_said_to_be_the_best_often_is() -> None:
    sure = [one for each in judged() for one in each.chosen if one.probability >= 0.6]
    assert len(sure) >= 8
    assert sum(one.best for one in sure) >= likely(SELDOM, len(sure), 0.6)


def test_what_is_recommended_is_nearly_the_best() -> None:
    chosen = [one for each in judged() for one in each.chosen]
    near = sum(one.part >= NEAR for one in chosen)
    assert near >= likely(SELDOM, len(chosen), 0.95)


def test_intervals_hold_the_truth() -> None:
    for what in ("acceptance", "measured", "predicted"):
        held = [one for each in judged() for one in getattr(each, what)]
        # Those of one sweep are not independent, so the bound is not that of a binomial.
        assert sum(held) >= (LOWEST - 0.08) * len(held)


def test_predictions_know_what_the_model_is_off_by() -> None:
    """In text whose difficulty changes, one acceptance for all windows is not quite right."""
    found = [
        judge(
            Sweep(
                f"stretches {number}",
                cost=Linear(0.01),
                acceptances={"structured": (0.98,)},
                hard=0.3,
            ),
            number,
        )
        for number in range(3)
    ]
    between = [one for each in found for one in each.predicted]
    others = [one for each in found for one in each.others]
    assert (len(between), len(others)) == (33, 9)
    assert sum(between) >= 31
    assert sum(others) >= 8
