"""How sure a ratio of two medians is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

CONFIDENCE: Final = 0.95
RESAMPLES: Final = 4000
SEED: Final = 20260521

# The smallest sample whose range covers its median with 95 % confidence: 1 - 2 / 2**6 = 97 %.
MINIMUM_SAMPLE: Final = 6

_BATCH: Final = 1_000_000  # values drawn at a time, so that memory does not grow with the run


@dataclass(frozen=True)
class Interval:
    """A ratio (no unit) and the bounds of its confidence interval."""

    point: float
    low: float
    high: float

    @property
    def covers_one(self) -> bool:
        """Whether "no difference" is among the values the sample allows."""
        return self.low <= 1.0 <= self.high

    def within(self, margin: float) -> bool:
        """Whether every value it allows is less than ``margin`` (0.05: 5 %) off 1, either way."""
        return 1 / (1 + margin) < self.low and self.high < 1 + margin

    @property
    def inverse(self) -> Interval:
        """The same statement about the reciprocal."""
        return Interval(1 / self.point, 1 / self.high, 1 / self.low)


def ratio_of_medians(numerator: Sequence[float], denominator: Sequence[float]) -> Interval | None:
    """The ratio of two medians with its 95 % percentile-bootstrap interval (Efron, 1979).

    Medians rather than means: one stalled request must not decide a case. Each side is resampled
    by itself, always from the same seed, so the same ledger gives the same interval whatever else
    is computed beside it. None where a side is smaller than ``MINIMUM_SAMPLE`` or not positive.
    """
    if min(len(numerator), len(denominator)) < MINIMUM_SAMPLE:
        return None
    above, below = np.asarray(numerator, float), np.asarray(denominator, float)
    if above.min() <= 0 or below.min() <= 0:
        return None
    generator = np.random.default_rng(SEED)
    ratios = _medians(above, generator) / _medians(below, generator)
    tail = 100 * (1 - CONFIDENCE) / 2
    low, high = np.percentile(ratios, [tail, 100 - tail])
    return Interval(float(np.median(above) / np.median(below)), float(low), float(high))


def _medians(values: NDArray[np.float64], generator: np.random.Generator) -> NDArray[np.float64]:
    medians = np.empty(RESAMPLES)
    rows = max(1, _BATCH // len(values))
    for start in range(0, RESAMPLES, rows):
        size = (min(rows, RESAMPLES - start), len(values))
        medians[start : start + rows] = np.median(generator.choice(values, size), axis=1)
    return medians
