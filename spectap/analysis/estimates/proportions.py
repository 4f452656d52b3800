"""Shares of answers that are right, and their difference, with the prompt as the unit.

A prompt that was answered several times counts once, with the share of its answers that are right.
"""

from __future__ import annotations

import bisect
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from scipy.special import bdtrc, betaincinv

_Z: Final = statistics.NormalDist().inv_cdf(0.975)
_POWER: Final = 0.8

Bounds = tuple[float, float]
"""Of a 95 % interval."""


def bounds(shares: Sequence[float]) -> Bounds:
    """The interval of the mean of shares, by Wilson's score method.

    E. B. Wilson, Journal of the American Statistical Association 22, 1927, 209-212. Where prompts
    have several answers each, it is wider than it need be.
    """
    return _wilson(statistics.fmean(shares), len(shares)) if shares else (0.0, 1.0)


def clopper_pearson(share: float, count: float, alpha: float) -> Bounds:
    """The interval of a share of ``count`` independent trials at that level."""
    good = share * count
    low = betaincinv(good, count - good + 1, alpha / 2) if share > 0 else 0.0
    high = betaincinv(good + 1, count - good, 1 - alpha / 2) if share < 1 else 1.0
    return float(low), float(high)


@dataclass(frozen=True)
class Paired:
    """The shares of right answers of two sides, prompt by prompt, with as many answers each."""

    variant: Sequence[float]
    baseline: Sequence[float]

    @property
    def prompts(self) -> int:
        """How many both sides answered."""
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
        """The exact sign test's chance of as many lost, if each is as likely lost as won.

        One-sided. With one answer a prompt it is McNemar's (Psychometrika 12, 1947, 153-157).
        """
        return float(bdtrc(self.lost - 1, self.lost + self.won, 0.5))

    @property
    def difference(self) -> float:
        """The variant's mean share less the baseline's."""
        return (
            statistics.fmean(self.variant) - statistics.fmean(self.baseline)
            if self.variant
            else 0.0
        )

    def interval(self) -> Bounds:
        """The interval of ``difference``.

        Newcombe's method 10 (Statistics in Medicine 17, 1998, 2635-2650): Wilson's bounds of both
        shares, and their correlation. It has width where both sides are always right.
        """
        if not self.variant:
            return -1.0, 1.0
        share, baseline_share = statistics.fmean(self.variant), statistics.fmean(self.baseline)
        count = self._single_answers()
        (low, high), (baseline_low, baseline_high) = (
            _wilson(share, count),
            _wilson(baseline_share, count),
        )
        correlation = self._correlation(count)
        below = _third_side(share - low, baseline_high - baseline_share, correlation)
        above = _third_side(high - share, baseline_share - baseline_low, correlation)
        return max(-1.0, share - baseline_share - below), min(1.0, share - baseline_share + above)

    def detectable(self, level: float) -> float | None:
        """The smallest fall of the share that would probably have been found at ``level``.

        That is, four times in five, where chance loses and wins as many prompts as here. The fall
        is that of prompts which are never answered rightly any more, the hardest to find. None
        where no fall could be found. To a tenth of a per cent.
        """
        smallest = bisect.bisect_left(
            range(1001), _POWER, key=lambda fall: self._power(fall / 1000, level)
        )
        most = 1000 * statistics.fmean(self.baseline) if self.baseline else 0
        return smallest / 1000 if smallest <= most else None

    def too_few(self, level: float) -> bool:
        """Whether no fall could be found at ``level`` even if the baseline were right in all."""
        return self._power(1.0, level) < _POWER

    def _power(self, fall: float, level: float) -> float:
        """How probably the sign test finds a fall."""
        by_chance = (self.lost + self.won) / 2
        won = round(by_chance * (1 - fall))
        lost = np.arange(self.prompts + 1)
        enough = lost[bdtrc(lost - 1, lost + won, 0.5) <= level]
        if not enough.size:
            return 0.0
        share = fall + (1 - fall) * by_chance / self.prompts
        return float(bdtrc(enough[0] - 1, self.prompts, share))

    @property
    def _pairs(self) -> list[tuple[float, float]]:
        return list(zip(self.variant, self.baseline, strict=True))

    def _single_answers(self) -> float:
        """How many prompts with one answer each would tell as much: Kish's design effect.

        As many as there are, where each has one answer. One more prompt, as often lost wholly as
        won, is added to what was seen: few prompts may have missed the few that matter most.
        """
        pairs, total = self._pairs, self.prompts + 1
        mean = sum(variant - baseline for variant, baseline in pairs) / total
        single = (
            1 + sum(variant + baseline - 2 * variant * baseline for variant, baseline in pairs)
        ) / total
        observed = (1 + sum((variant - baseline) ** 2 for variant, baseline in pairs)) / total
        return self.prompts * (single - mean**2) / (observed - mean**2)

    def _correlation(self, count: float) -> float:
        """Corrected for continuity as Newcombe does; 0 where a side does not vary."""
        share, baseline_share = statistics.fmean(self.variant), statistics.fmean(self.baseline)
        shared = statistics.fmean(a * b for a, b in self._pairs) - share * baseline_share
        spread = math.sqrt(share * (1 - share) * baseline_share * (1 - baseline_share))
        if spread == 0:
            return 0.0
        return (max(0.0, shared - 0.5 / count) if shared > 0 else shared) / spread


def _wilson(share: float, count: float) -> Bounds:
    middle = share + _Z**2 / (2 * count)
    reach = _Z * math.sqrt(share * (1 - share) / count + (_Z / (2 * count)) ** 2)
    scale = 1 + _Z**2 / count
    return max(0.0, (middle - reach) / scale), min(1.0, (middle + reach) / scale)


def _third_side(first: float, second: float, cosine: float) -> float:
    return math.sqrt(max(0.0, first**2 - 2 * cosine * first * second + second**2))
