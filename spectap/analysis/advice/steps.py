"""What was measured of steps: how often drafts are accepted, and how long a step takes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
from scipy.special import stdtrit

from spectap.analysis import contrasts
from spectap.analysis.advice.advice import Acceptance, Line, Position, StepCost
from spectap.analysis.advice.observed import Array, Observed, Side
from spectap.analysis.estimates.estimate import ALPHA
from spectap.analysis.estimates.intervals import Interval
from spectap.analysis.estimates.proportions import clopper_pearson
from spectap.rounds import FEWEST_ROUNDS


def acceptances(observed: Observed, lines: Iterable[Line]) -> tuple[Acceptance, ...]:
    """Of each line on each class of prompts that it was measured on."""
    by_class = []
    for line in lines:
        sides = [observed.sides[name] for _, name in line.variants]
        for number, prompt_class in enumerate(observed.classes):
            reached, accepted = (
                np.sum([getattr(side, field)[:, number] for side in sides], axis=0)
                for field in ("reached", "accepted")
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
    return clopper_pearson(float(share), float(worth), ALPHA)


def step_costs(observed: Observed, lines: Iterable[Line]) -> Iterator[StepCost]:
    """Of each line at each load, over all classes."""
    with np.errstate(divide="ignore", invalid="ignore"):
        means = {
            name: side.seconds.sum(axis=(1, 2)) / side.steps.sum(axis=(1, 2))
            for name, side in observed.sides.items()
        }
    for line in lines:
        for load, point in enumerate(observed.loads):
            baseline = float(means[line.baseline][load])
            measured = [
                (window, name) for window, name in line.variants if np.isfinite(means[name][load])
            ]
            if not measured or not np.isfinite(baseline):
                continue
            drafts = [observed.drafts[name] for _, name in measured]
            seconds = np.array([means[name][load] for _, name in measured])
            # One window cannot tell what is fixed from what each draft adds.
            fixed, per_draft = 0.0, (seconds[0] - baseline) / drafts[0]
            if len(measured) > 1:
                per_draft, fixed = np.polyfit(drafts, seconds - baseline, 1, w=1 / seconds)
            yield StepCost(
                line=line.name,
                load=point,
                baseline=baseline,
                measured=tuple(
                    (window, _step_interval(observed.sides[name], load))
                    for window, name in measured
                ),
                fixed=float(fixed),
                per_draft=float(per_draft),
            )


def _step_interval(side: Side, load: int) -> Interval:
    """Of the mean step, by rounds."""
    seconds, steps = side.seconds[load].sum(axis=-1), side.steps[load].sum(axis=-1)
    rounds = [(float(a), float(b)) for a, b in zip(seconds, steps, strict=True) if b]
    if estimate := contrasts.ratio_of_sums(rounds):
        return estimate.interval(ALPHA)
    mean = float(seconds.sum() / steps.sum())
    return Interval(mean, mean, mean)
