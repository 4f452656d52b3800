"""How many tokens a step yields, and how long it takes, at windows that nobody measured.

Acceptance is by the position of a draft, of those steps that reached it. The window only says where
a draft's chain is cut, so all windows of a draft tell of the same chain. That is an assumption:
where steps start depends on the window, and wide ones start more often where an answer is hard to
predict.

A step's time is straight between what was measured: no drafts, which is the baseline, and each
measured window. How a target's pass grows with its tokens is not known beforehand. What this misses
is measured too: each window is predicted from the others of its line (``outlook``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np
from scipy.special import betaincinv, stdtrit

from spectap.analysis import contrasts
from spectap.analysis.advice.advice import Acceptance, Line, Position, StepCost
from spectap.analysis.advice.observed import Array, Observed
from spectap.analysis.estimates.estimate import ALPHA
from spectap.analysis.estimates.intervals import Interval
from spectap.load_points import FEWEST_ROUNDS

_OF_CLASS: Final = 20.0
"""Steps that a prompt is given of its class beside its own: few have many at late positions."""
_OF_POSITION: Final = 1.0
"""Steps that a position is given of the one before it. One that no step reached is all of it."""


class Yield(NamedTuple):
    """What a step yields, over the number of drafts (from 1) in the last axis."""

    tokens: Array
    """Expected, of a step that no answer's end cuts off."""
    cut: Array
    """Expected tokens by which a step goes beyond an answer's end, had it none."""


def step_yield(chances: Array) -> Yield:
    """Of a step with 1, 2, ... drafts, from the chance of each draft in the last axis.

    One token and the accepted drafts: 1 + sum over j of the product of the first j chances. Where
    all chances are a, that is (1 - a^(g+1)) / (1 - a), equation 1 of Leviathan et al. (2211.17192).
    An answer ends within its last step. By Wald's equation, n tokens take (n + cut) / tokens steps,
    and by renewal theory the cut is (E[c^2] - E[c]) / 2 E[c] for the c tokens of a step (Feller, An
    introduction to probability theory II, chapter XI).
    """
    reached = np.cumprod(chances, axis=-1)  # the first j drafts were accepted
    tokens = 1 + np.cumsum(reached, axis=-1)
    odd = 2 * np.arange(1, chances.shape[-1] + 1) + 1
    squares = 1 + np.cumsum(odd * reached, axis=-1)
    return Yield(tokens, (squares - tokens) / (2 * tokens))


def chain(reached: Array, accepted: Array) -> Array:
    """The chance of each draft, if it is reached, over prompt and position in the last two axes.

    That of a prompt is drawn to what is likely: the odds of all prompts here, by as much higher or
    lower as its own were at the position before. Where no step reached a position, chances are
    those of the position before.
    """
    all_reached, all_accepted = reached.sum(axis=-2), accepted.sum(axis=-2)
    chances = np.empty(reached.shape)
    common = np.full(all_reached.shape[:-1], 0.5)
    of_prompt = np.broadcast_to(common[..., np.newaxis], reached.shape[:-1])
    for position in range(reached.shape[-1]):
        before = common
        common = (all_accepted[..., position] + _OF_POSITION * before) / (
            all_reached[..., position] + _OF_POSITION
        )
        odds = _odds(of_prompt) * (_odds(common) / _odds(before))[..., np.newaxis]
        of_prompt = (accepted[..., position] + _OF_CLASS * odds / (1 + odds)) / (
            reached[..., position] + _OF_CLASS
        )
        chances[..., position] = of_prompt
    return chances


def through(points: Sequence[int], most: int) -> Array:
    """What draws a curve to measured points: over 1 to ``most`` drafts and the points.

    Straight between two points, and beyond the last as between the last two.
    """
    drafts = np.arange(1, most + 1)
    last, before = points[-1], points[-2]
    beyond = np.maximum(0, drafts - last) / (last - before)
    columns = [np.interp(drafts, points, unit) for unit in np.eye(len(points))]
    columns[-1] = columns[-1] + beyond
    columns[-2] = columns[-2] - beyond
    return np.array(columns).T


def acceptances(observed: Observed, lines: Iterable[Line]) -> tuple[Acceptance, ...]:
    """Of each line on each class of prompts that it was measured on."""
    by_class = []
    for line in lines:
        sides = [observed.sides[name] for _, name in line.variants]
        for number, prompt_class in enumerate(observed.classes):
            members = observed.members(number)
            reached, accepted = (
                np.sum([array[:, members].sum(axis=1) for array in arrays], axis=0)
                for arrays in ([s.reached for s in sides], [s.accepted for s in sides])
            )
            if positions := tuple(_positions(reached, accepted)):
                by_class.append(Acceptance(line.name, prompt_class, positions))
    return tuple(by_class)


def _positions(reached: Array, accepted: Array) -> Iterator[Position]:
    """From what each round reached and accepted, over round and position."""
    for number, (tried, taken) in enumerate(zip(reached.T, accepted.T, strict=True), start=1):
        total = tried.sum()
        if total > 0:
            share = float(taken.sum() / total)
            yield Position(number, int(total), share, _share_interval(tried, taken))


def _share_interval(tried: Array, taken: Array) -> tuple[float, float] | None:
    """Korn's and Graubard's interval of a share (Survey Methodology 24, 1998), by rounds.

    Clopper's and Pearson's, for as many independent steps as have the scatter of the rounds, less
    what is not known of that scatter. It has width where all drafts were accepted, too.
    """
    rounds, total = len(tried), tried.sum()
    if rounds < FEWEST_ROUNDS or np.count_nonzero(tried) < FEWEST_ROUNDS:
        return None
    share = taken.sum() / total
    excess = taken - share * tried
    scatter = rounds / (rounds - 1) * (excess**2).sum() / total**2
    sureness = stdtrit(total, 1 - ALPHA / 2) / stdtrit(rounds - 1, 1 - ALPHA / 2)
    independent = share * (1 - share) / scatter if scatter > 0 else total
    worth = min(total, independent) * sureness**2
    good = share * worth
    low = betaincinv(good, worth - good + 1, ALPHA / 2) if share > 0 else 0.0
    high = betaincinv(good + 1, worth - good, 1 - ALPHA / 2) if share < 1 else 1.0
    return float(low), float(high)


def step_costs(observed: Observed, lines: Iterable[Line]) -> Iterator[StepCost]:
    """Of each line at each load, over all classes."""
    pooled = _mean_steps(observed)
    for line in lines:
        for load, point in enumerate(observed.loads):
            baseline = float(pooled[line.baseline][load])
            measured = [
                (window, name, float(pooled[name][load]))
                for window, name in line.variants
                if np.isfinite(pooled[name][load])
            ]
            if not measured or not np.isfinite(baseline):
                continue
            drafts = [observed.drafts[name] for _, name, _ in measured]
            fixed, per_draft = _straight(baseline, drafts, [step for *_, step in measured])
            yield StepCost(
                line=line.name,
                load=point,
                baseline=baseline,
                measured=tuple(
                    (window, _step_interval(observed, name, load, step))
                    for window, name, step in measured
                ),
                fixed=fixed,
                per_draft=per_draft,
            )


def _mean_steps(observed: Observed) -> Mapping[str, Array]:
    """Of each variant over all classes, in seconds, by load; NaN: not measured."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return {
            name: side.seconds.sum(axis=(1, 2)) / side.steps.sum(axis=(1, 2))
            for name, side in observed.sides.items()
        }


def _straight(
    baseline: float, drafts: Sequence[int], seconds: Sequence[float]
) -> tuple[float, float]:
    """What a step adds to the baseline's: in any case, and for each draft, by least squares.

    The first is 0 where a single number of drafts was measured.
    """
    added = np.array(seconds) - baseline
    if len(drafts) == 1:
        return 0.0, float(added[0] / drafts[0])
    per_draft, fixed = np.polyfit(drafts, added, 1, w=1 / np.array(seconds))
    return float(fixed), float(per_draft)


def _step_interval(observed: Observed, name: str, load: int, mean: float) -> Interval:
    """Of the mean step, by rounds."""
    side = observed.sides[name]
    seconds, steps = side.seconds[load].sum(axis=-1), side.steps[load].sum(axis=-1)
    rounds = [(float(a), float(b)) for a, b in zip(seconds, steps, strict=True) if b]
    estimate = contrasts.ratio_of_sums(rounds)
    return estimate.interval(ALPHA) if estimate else Interval(mean, mean, mean)


def _odds(chance: Array) -> Array:
    bounded = np.clip(chance, 1e-4, 1 - 1e-4)
    return bounded / (1 - bounded)
