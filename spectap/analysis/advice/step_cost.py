"""What a step takes, as the drafts in it grow.

A step with g drafts is g passes of the draft and one of the target, over g + 1 tokens of each
sequence. How the target's pass grows with its tokens is not known beforehand. It may be linear
(TurboSpec, 2406.14066, section 4), flat until arithmetic and not the weights' way from memory
decides (2601.11580), or rounded between both; and speculation may have a cost of its own. Each
shape that has no more parameters than windows were measured is fitted by least squares. Shapes that
fit alike are likely alike (Burnham and Anderson, Model selection and multimodel inference, 2002,
chapter 2). A curve then goes through what was measured, however well its shape fits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from spectap.analysis.advice.observed import Array

NOISE: Final = 0.005
"""How far a step's mean time may be off a shape's, as a part of it: shapes are simple."""
_ALIKE: Final = 0.1
KNEES: Final = np.geomspace(0.25, 400, 600)

Growth = Callable[[Array, Array], Array]
"""Of a pass over so many tokens, by its knee: how long it takes, to some scale."""


def linear(tokens: Array, knee: Array) -> Array:
    """Every token adds as much."""
    return 1 + tokens / knee


def rounded(tokens: Array, knee: Array) -> Array:
    """Memory and arithmetic hide each other in part."""
    return np.hypot(1, tokens / knee)


def roofline(tokens: Array, knee: Array) -> Array:
    """Free up to the knee."""
    return np.maximum(1, tokens / knee)


GROWTHS: Final[tuple[Growth, ...]] = (linear, rounded, roofline)


@dataclass(frozen=True)
class Shapes:
    """How a line's step may grow at one load."""

    logs: Array
    """Logarithms of seconds, over the shape and the number of drafts, 0 included."""
    weights: Array
    """How likely each shape is."""

    @property
    def mean(self) -> Array:
        """Over the shapes, by their weights; a single row."""
        mean: Array = (self.weights @ self.logs)[np.newaxis]
        return mean


def shapes(
    baseline: float,
    drafts: Sequence[int],
    seconds: Sequence[float],
    most: int,
    *,
    errors: Sequence[float],
) -> Shapes:
    """From a step of the baseline, and of each measured number of drafts; for 0 to ``most``.

    ``errors`` are standard errors of the logarithms of ``seconds``, the baseline's included.
    """
    known = np.isfinite(seconds)
    own, times, scatter = (np.array(one, float)[known] for one in (drafts, seconds, errors))
    if not len(own) or not np.isfinite(baseline):
        return Shapes(np.full((1, most + 1), np.nan), np.ones(1))
    found = [_straight(baseline, own, times, most)]
    if len(own) == 1:
        # It may be the window that costs, or speculation as such: nothing tells.
        found += [_log(baseline, np.append(baseline, np.full(most, times[0])))]
    else:
        found += [_with_overhead(baseline, own, times, most)]
        found += [_bent(growth, baseline, own, times, most) for growth in (rounded, roofline)]
    rows = np.array(found)
    variance = NOISE**2 + scatter**2
    misses = ((np.exp(rows[:, own.astype(int)]) / times - 1) ** 2 / variance).sum(axis=1)
    parameters = np.array([1, 2, 2, 2] if len(own) > 1 else [1, 1])
    # Akaike's criterion for errors of known size.
    criterion = misses + 2 * parameters
    weights = np.exp(-(criterion - criterion.min()) / 2)
    return Shapes(rows, weights / weights.sum())


def least_squares(
    baseline: float, drafts: Sequence[int], seconds: Sequence[float]
) -> tuple[float, float]:
    """What a step adds to the baseline's: in any case, and for each draft.

    The first is 0 where a single number of drafts was measured.
    """
    own, added = np.array(drafts, float), np.array(seconds, float) - baseline
    if len(drafts) == 1:
        return 0.0, float(added[0] / own[0])
    weights = 1 / np.array(seconds, float)
    columns = np.column_stack([np.ones_like(own), own]) * weights[:, np.newaxis]
    (fixed, per_draft), *_ = np.linalg.lstsq(columns, added * weights, rcond=None)
    return float(fixed), float(per_draft)


def through(measured: Sequence[int], most: int) -> Array:
    """What draws a curve to measured points: over 0 to ``most`` drafts and the points.

    Between two points it is straight, beyond the last as there.
    """
    return np.array(
        [np.interp(np.arange(most + 1), measured, own) for own in np.eye(len(measured))]
    ).T


def _straight(baseline: float, drafts: Array, seconds: Array, most: int) -> Array:
    """Each draft adds as much."""
    weighted = drafts / seconds
    slope = (weighted * (1 - baseline / seconds)).sum() / (weighted**2).sum()
    return _log(baseline, baseline + max(0.0, slope) * np.arange(most + 1))


def _with_overhead(baseline: float, drafts: Array, seconds: Array, most: int) -> Array:
    """Speculation adds something in any case, and each draft as much."""
    fixed, slope = least_squares(baseline, [*drafts.astype(int)], [*seconds])
    times = baseline + fixed + slope * np.arange(most + 1)
    times[0] = baseline
    return _log(baseline, times)


def _bent(growth: Growth, baseline: float, drafts: Array, seconds: Array, most: int) -> Array:
    """Each draft takes as long, and the target's pass grows with its tokens: the best knee."""
    knees = KNEES[:, np.newaxis]
    passes = baseline * growth(drafts + 1, knees) / growth(np.ones(1), knees)
    weighted = drafts / seconds
    draft = np.maximum(0, (weighted * (1 - passes / seconds)).sum(axis=1) / (weighted**2).sum())
    misses = (((passes + draft[:, np.newaxis] * drafts) / seconds - 1) ** 2).sum(axis=1)
    # The straightest of those that fit alike: of many knees, none may be among the windows.
    best = np.flatnonzero(misses <= misses.min() + _ALIKE * NOISE**2)[-1]
    number = np.arange(most + 1)
    verified = growth(number + 1.0, KNEES[best]) / growth(np.ones(1), KNEES[best])
    return _log(baseline, baseline * verified + draft[best] * number)


def _log(baseline: float, seconds: Array) -> Array:
    # A line that falls would reach 0; no step is that much faster than the baseline's.
    logs: Array = np.log(np.maximum(seconds, baseline / 10))
    return logs
