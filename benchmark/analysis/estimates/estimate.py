"""A positive quantity and how far it can be trusted, from the rounds it was measured in.

All on the logarithmic scale, where a ratio and its reciprocal are equally certain.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from scipy.special import nctdtrinc, stdtr, stdtrit

from benchmark.analysis.estimates.intervals import Interval
from benchmark.rounds import FEWEST_ROUNDS

ALPHA: Final = 0.05
"""The chance of an error that a report allows itself: 1 - 0.05 is its 95 %."""

POWER: Final = 0.8
"""How likely a difference must be to be found before "it would have been seen" is said."""

_MOST_UNITS: Final = 100_000

_Unit = TypeVar("_Unit")


@dataclass(frozen=True)
class Estimate:
    """The logarithm of a quantity, its standard error, and the number of units behind both."""

    log: float
    error: float
    units: int

    def interval(self, alpha: float = ALPHA) -> Interval:
        """The interval that holds the truth with probability 1 - ``alpha``: Student's t."""
        reach = self._reach(alpha)
        return Interval(math.exp(self.log), math.exp(self.log - reach), math.exp(self.log + reach))

    def half_width(self, alpha: float) -> float:
        """How far the interval reaches above the estimate, as a part of it: 0.05 is 5 %."""
        return math.expm1(self._reach(alpha))

    @property
    def p(self) -> float:
        """The chance of an estimate at least this far off 1 if the truth is 1."""
        if self.error == 0:
            return float(self.log == 0)
        return float(2 * stdtr(self.units - 1, -abs(self.log) / self.error))

    def detectable(self, alpha: float) -> float:
        """The smallest difference that a test at ``alpha`` finds with probability ``POWER``."""
        return math.expm1(_standard_errors(self.units, alpha) * self.error)

    def units_for(self, difference: float, alpha: float) -> int:
        """How many units in all make ``difference`` detectable, if they scatter as these do."""
        scatter = self.error * math.sqrt(self.units)
        below, enough = FEWEST_ROUNDS - 1, FEWEST_ROUNDS

        def found(units: int) -> bool:
            reach = _standard_errors(units, alpha) * scatter / math.sqrt(units)
            return reach <= math.log1p(difference)

        while not found(enough) and enough < _MOST_UNITS:
            below, enough = enough, 2 * enough
        while enough - below > 1:
            middle = (below + enough) // 2
            below, enough = (below, middle) if found(middle) else (middle, enough)
        return enough

    def _reach(self, alpha: float) -> float:
        return float(stdtrit(self.units - 1, 1 - alpha / 2)) * self.error


def jackknife(
    units: Sequence[_Unit], statistic: Callable[[Sequence[_Unit]], float]
) -> Estimate | None:
    """The logarithm of a positive ``statistic`` of independent units, with its standard error.

    The error is that of the delete-one jackknife (Tukey, 1958; Miller, The jackknife - a review,
    Biometrika 61, 1974), to be used with Student's t on one degree of freedom less than there are
    units. Where the statistic is a geometric mean, both are those of the ordinary t interval of
    the logarithms. Returns None for fewer than ``FEWEST_ROUNDS`` units, and where the statistic is
    0 or infinite, with all units or without one of them.
    """
    count = len(units)
    if count < FEWEST_ROUNDS:
        return None
    found = [
        statistic(chosen)
        for chosen in (units, *([*units[:one], *units[one + 1 :]] for one in range(count)))
    ]
    if not all(0 < value < math.inf for value in found):
        return None
    whole, *without = map(math.log, found)
    mean = math.fsum(without) / count
    variance = (count - 1) / count * math.fsum((log - mean) ** 2 for log in without)
    return Estimate(whole, math.sqrt(variance), count)


def geometric_mean(values: Sequence[float]) -> float:
    """Of positive values."""
    return math.exp(math.fsum(map(math.log, values)) / len(values))


def _standard_errors(units: int, alpha: float) -> float:
    """How many standard errors off a difference must be, to be found with ``POWER``.

    The noncentrality at which Student's t is beyond its quantile that often.
    """
    return float(nctdtrinc(units - 1, 1 - POWER, stdtrit(units - 1, 1 - alpha / 2)))
