"""Shares of answers that are right, and their difference, with the prompt as the unit.

A prompt that was answered several times counts once, with the share of its answers that are right.
"""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from scipy.special import bdtrc, betaincinv

_Z: Final = statistics.NormalDist().inv_cdf(0.975)

Bounds = tuple[float, float]
"""The ends of a 95 % interval."""


def bounds(shares: Sequence[float]) -> Bounds:
    """The 95 % interval of a mean share, by Wilson's score method (JASA 22, 1927, 209-212).

    It is wider than needed where prompts have several answers each.
    """
    return _wilson(statistics.fmean(shares), len(shares)) if shares else (0.0, 1.0)


def difference(old: tuple[float, Bounds], new: tuple[float, Bounds]) -> Bounds:
    """The 95 % interval of the difference of two independent shares, new less old.

    Newcombe's method 10 (Statistics in Medicine 17, 1998, 873-890). Each share comes with its own
    interval.
    """
    (share, (low, high)), (old_share, (old_low, old_high)) = new, old
    below = _third_side(share - low, old_high - old_share, 0.0)
    above = _third_side(high - share, old_share - old_low, 0.0)
    return share - old_share - below, share - old_share + above


def clopper_pearson(share: float, count: float, alpha: float) -> Bounds:
    """The interval of a share of ``count`` independent trials, at the level ``alpha``."""
    good = share * count
    low = betaincinv(good, count - good + 1, alpha / 2) if share > 0 else 0.0
    high = betaincinv(good + 1, count - good, 1 - alpha / 2) if share < 1 else 1.0
    return float(low), float(high)


@dataclass(frozen=True)
class Paired:
    """The shares of right answers of two sides, by prompt, with as many answers on each side."""

    variant: Sequence[float]
    baseline: Sequence[float]

    @property
    def prompts(self) -> int:
        return len(self.variant)

    @property
    def lost(self) -> int:
        """Prompts that the baseline answers rightly more often."""
        return sum(variant < baseline for variant, baseline in self._pairs)

    @property
    def won(self) -> int:
        """Prompts that the baseline answers rightly less often."""
        return sum(variant > baseline for variant, baseline in self._pairs)

    @property
    def p(self) -> float:
        """The p-value of the exact one-sided sign test: more prompts were lost than chance
        explains.

        With one answer a prompt it is McNemar's test (Psychometrika 12, 1947, 153-157).
        """
        return float(bdtrc(self.lost - 1, self.lost + self.won, 0.5))

    @property
    def rates(self) -> tuple[float, float]:
        """The mean shares of both sides; 0 without prompts."""
        variant, baseline = (
            statistics.fmean(side or [0]) for side in (self.variant, self.baseline)
        )
        return variant, baseline

    def interval(self) -> Bounds:
        """The interval of the difference of ``rates``, the variant's less the baseline's.

        Newcombe's method 10 (Statistics in Medicine 17, 1998, 2635-2650): Wilson's bounds of both
        shares, and their correlation. It has width where both sides are always right.
        """
        if not self.variant:
            return -1.0, 1.0
        share, baseline_share = self.rates
        count = self._single_answers()
        (low, high), (baseline_low, baseline_high) = (
            _wilson(share, count),
            _wilson(baseline_share, count),
        )
        # Corrected for continuity as Newcombe does; 0 where a side does not vary.
        shared = statistics.fmean(a * b for a, b in self._pairs) - share * baseline_share
        spread = math.sqrt(share * (1 - share) * baseline_share * (1 - baseline_share))
        shared = max(0.0, shared - 0.5 / count) if shared > 0 else shared
        correlation = shared / spread if spread else 0.0
        below = _third_side(share - low, baseline_high - baseline_share, correlation)
        above = _third_side(high - share, baseline_share - baseline_low, correlation)
        return max(-1.0, share - baseline_share - below), min(1.0, share - baseline_share + above)

    @property
    def _pairs(self) -> list[tuple[float, float]]:
        return list(zip(self.variant, self.baseline, strict=True))

    def _single_answers(self) -> float:
        """The number of prompts with one answer each that would tell as much: Kish's design effect.
        One more prompt, won as often as lost, is added, because few prompts may have missed those
        that matter."""
        pairs, total = self._pairs, self.prompts + 1
        mean = sum(variant - baseline for variant, baseline in pairs) / total
        single = (
            1 + sum(variant + baseline - 2 * variant * baseline for variant, baseline in pairs)
        ) / total
        observed = (1 + sum((variant - baseline) ** 2 for variant, baseline in pairs)) / total
        return self.prompts * (single - mean**2) / (observed - mean**2)


def _wilson(share: float, count: float) -> Bounds:
    middle = share + _Z**2 / (2 * count)
    reach = _Z * math.sqrt(share * (1 - share) / count + (_Z / (2 * count)) ** 2)
    scale = 1 + _Z**2 / count
    return max(0.0, (middle - reach) / scale), min(1.0, (middle + reach) / scale)


def _third_side(first: float, second: float, cosine: float) -> float:
    return math.sqrt(max(0.0, first**2 - 2 * cosine * first * second + second**2))
