"""Shares of right answers, and their difference, against known truth."""

from __future__ import annotations

import dataclasses
import statistics
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectap.analysis.estimates.proportions import Paired, bounds

RUNS = 300


@dataclass(frozen=True)
class World:
    """Prompts and how their answers come out. All but the counts are probabilities."""

    prompts: int
    answers: int
    """To each prompt."""
    easy: float
    """That the baseline answers a prompt rightly as a rule."""
    doubt: float = 0.0
    """That an answer is otherwise than the rule of its prompt."""
    broken: float = 0.0
    """That a right answer becomes a wrong one."""
    lost: float = 0.0
    """That a prompt is never answered rightly any more."""

    @property
    def share(self) -> float:
        """Of the baseline's answers that are right."""
        return self.easy * (1 - self.doubt) + (1 - self.easy) * self.doubt

    @property
    def truth(self) -> float:
        """The difference of the shares."""
        return self.share * ((1 - self.broken) * (1 - self.lost) - 1)

    def run(self, random: np.random.Generator) -> Paired:
        rule = np.where(random.random(self.prompts) < self.easy, 1 - self.doubt, self.doubt)
        kept = random.random(self.prompts) >= self.lost
        own = random.binomial(self.answers, rule * (1 - self.broken) * kept) / self.answers
        other = random.binomial(self.answers, rule) / self.answers
        return Paired(own.tolist(), other.tolist())


@pytest.mark.parametrize(
    "world",
    [
        World(10, 1, easy=1.0),
        World(10, 1, easy=1.0, broken=0.3),
        World(10, 1, easy=0.5, doubt=0.3),
        World(20, 1, easy=0.8, doubt=0.1, broken=0.1),
        World(60, 1, easy=1.0, broken=0.02),
        World(60, 1, easy=0.8, broken=0.1),
        World(164, 1, easy=0.8, doubt=0.1),
        World(164, 1, easy=0.95, broken=0.1, lost=0.03),
        World(10, 10, easy=1.0, broken=0.1, lost=0.03),
        World(20, 10, easy=1.0, broken=0.02, lost=0.03),
        World(60, 4, easy=0.95, broken=0.02, lost=0.03),
        World(60, 10, easy=0.8, doubt=0.1, broken=0.1),
    ],
    ids=str,
)
def test_the_interval_of_a_difference_holds_the_truth(world: World) -> None:
    random = np.random.default_rng(8)
    held = 0
    for _ in range(RUNS):
        low, high = world.run(random).interval()
        held += low - 1e-9 <= world.truth <= high + 1e-9
    # What was seen of a true 95 % is less in one run of a hundred.
    assert held / RUNS >= 0.95 - 2.33 * (0.95 * 0.05 / RUNS) ** 0.5


@pytest.mark.parametrize("answers", [1, 4])
@pytest.mark.parametrize(("easy", "doubt"), [(1.0, 0.0), (0.95, 0.02), (0.8, 0.1), (0.5, 0.3)])
def test_equal_sides_are_seldom_told_apart(easy: float, doubt: float, answers: int) -> None:
    random = np.random.default_rng(9)
    world = World(60, answers, easy, doubt)
    accused = sum(world.run(random).p <= 0.025 for _ in range(RUNS))
    assert accused / RUNS <= 0.025 + 2.33 * (0.025 * 0.975 / RUNS) ** 0.5


@pytest.mark.parametrize(
    "world",
    [
        World(60, 1, easy=1.0),
        World(200, 1, easy=1.0),
        World(60, 1, easy=0.9, doubt=0.05),
        World(164, 4, easy=0.8, doubt=0.1),
    ],
    ids=str,
)
def test_what_is_detectable_is_detected(world: World) -> None:
    random = np.random.default_rng(10)
    said = [world.run(random).detectable(0.025) for _ in range(30)]
    fall = statistics.fmean(one for one in said if one is not None)
    fallen = dataclasses.replace(world, lost=fall / world.share)
    assert -fallen.truth == pytest.approx(fall)
    found = sum(fallen.run(random).p <= 0.025 for _ in range(RUNS))
    assert 0.72 <= found / RUNS <= 0.9


@pytest.mark.parametrize(("prompts", "fall"), [(5, None), (6, 0.964), (60, 0.129), (200, 0.04)])
def test_six_lost_prompts_are_more_than_chance(prompts: int, fall: float | None) -> None:
    detectable = Paired([1.0] * prompts, [1.0] * prompts).detectable(0.025)
    assert detectable == (fall if fall is None else pytest.approx(fall))


@pytest.mark.parametrize(("lost", "p"), [(0, 1.0), (5, 1 / 32), (6, 1 / 64)])
def test_prompts_that_are_lost(lost: int, p: float) -> None:
    paired = Paired([0.0] * lost + [1.0] * (60 - lost), [1.0] * 60)
    assert paired.p == pytest.approx(p)
    assert (paired.lost, paired.won) == (lost, 0)


def test_newcombes_own_example() -> None:
    """Table III there: of 50 pairs 36, 12, 2 and 0; method 10 gives 0.0569 to 0.3404."""
    own = [1.0] * 36 + [1.0] * 12 + [0.0] * 2
    other = [1.0] * 36 + [0.0] * 12 + [1.0] * 2
    assert Paired(own, other).interval() == pytest.approx((0.0569, 0.3404), abs=5e-5)


@pytest.mark.parametrize(
    ("right", "low", "high"), [(0, 0, 0.161), (20, 0.839, 1), (10, 0.299, 0.701)]
)
def test_wilsons_bounds(right: int, low: float, high: float) -> None:
    assert bounds([1.0] * right + [0.0] * (20 - right)) == pytest.approx((low, high), abs=5e-4)


def test_nothing_tells_nothing() -> None:
    nothing = Paired([], [])
    assert bounds([]) == (0.0, 1.0)
    assert nothing.interval() == (-1.0, 1.0)
    assert (nothing.p, nothing.difference, nothing.detectable(0.025)) == (1.0, 0.0, None)


shares = st.integers(1, 4).flatmap(
    lambda answers: st.lists(
        st.tuples(st.integers(0, answers), st.integers(0, answers)).map(
            lambda pair: (pair[0] / answers, pair[1] / answers)
        ),
        min_size=1,
    )
)


@given(shares)
def test_the_other_way_round_is_the_other_sign(pairs: list[tuple[float, float]]) -> None:
    one, other = (
        Paired(*zip(*pairs, strict=True)),
        Paired(*zip(*(p[::-1] for p in pairs), strict=True)),
    )
    low, high = one.interval()
    assert -1 <= low <= one.difference <= high <= 1
    assert other.interval() == pytest.approx((-high, -low))
    assert (one.lost, one.won) == (other.won, other.lost)
    assert max(one.p, other.p) >= 0.5
