"""Estimates of positive quantities, with errors from the rounds that they were measured in.

All errors are on the logarithmic scale, on which a ratio and its reciprocal are equally certain.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple, TypeVar

from scipy.special import nctdtrinc, stdtr, stdtrit

from spectap.inputs.load_points import FEWEST_ROUNDS

ALPHA: Final = 0.05
"""The chance of an error that a report allows itself: its intervals are of 95 %."""
ALPHA_EARLY: Final = 0.001
"""The chance of an error in a run that ended before its plan. It is small, so that looking early
leaves ALPHA to the last look (Haybittle, British Journal of Radiology 44, 1971; Peto, British
Journal of Cancer 34, 1976)."""
MARGIN: Final = 0.05  # a smaller difference changes nobody's decision
POWER: Final = 0.8  # how likely "would have been seen" means
_MOST_UNITS: Final = 200
"""The longest run that is proposed, in units."""

_VAGUE: Final = 10  # times from one bound of an interval to the other

_Unit = TypeVar("_Unit")


@dataclass(frozen=True)
class Interval:
    """An estimate and the bounds of its confidence interval, in the estimate's unit."""

    point: float
    low: float
    high: float

    def within(self, margin: float) -> bool:
        """Whether the whole interval is less than ``margin`` (0.05: 5 %) off 1, either way."""
        return 1 / (1 + margin) < self.low and self.high < 1 + margin

    @property
    def vague(self) -> bool:
        """Whether it is too wide to decide by."""
        return self.high > _VAGUE * self.low

    @property
    def inverse(self) -> Interval:
        return Interval(1 / self.point, 1 / self.high, 1 / self.low)

    def scaled(self, factor: float) -> Interval:
        return Interval(factor * self.point, factor * self.low, factor * self.high)


class Component(NamedTuple):
    """An independent part of a standard error, with its degrees of freedom."""

    error: float
    freedom: float


@dataclass(frozen=True)
class Estimate:
    """The logarithm of a quantity, its standard error, and the number of units behind both."""

    log: float
    error: float
    units: int
    common: Component | None = None
    """The part of the error that all units share, so more units do not shrink it."""
    freedom: float | None = None
    """Degrees of freedom of the error. None: ``per_unit`` x (units - 1)."""
    per_unit: int = 1

    def widened(self, common: Component) -> Estimate:
        """A copy with a further error, which all units share."""
        error, freedom = _sum(Component(self.error, self.degrees), common)
        return replace(self, error=error, common=common, freedom=freedom)

    def against(self, denominator: Estimate) -> Estimate:
        error, freedom = _sum(
            *(Component(estimate.error, estimate.degrees) for estimate in (self, denominator))
        )
        log = _bounded(self.log - denominator.log)
        return Estimate(log, error, min(self.units, denominator.units), freedom=freedom)

    def interval(self, alpha: float = ALPHA) -> Interval:
        """The interval that holds the truth with probability 1 - ``alpha``: Student's t."""
        reach = self._reach(alpha)
        logs = (self.log, self.log - reach, self.log + reach)
        return Interval(*(math.exp(_bounded(log)) for log in logs))

    def half_width(self, alpha: float) -> float:
        """The upper half of the interval, relative to the estimate: 0.05 is 5 %."""
        return math.expm1(_bounded(self._reach(alpha)))

    @property
    def degrees(self) -> float:
        return self.per_unit * (self.units - 1) if self.freedom is None else self.freedom

    @property
    def p(self) -> float:
        """The chance of an estimate at least this far off 1 if the truth is 1."""
        if self.error == 0:
            return float(self.log == 0)
        return float(2 * stdtr(self.degrees, -abs(self.log) / self.error))

    def p_below(self, bound: float) -> float:
        """The chance of an estimate at least this low if the truth is ``bound``."""
        above = self.log - math.log(bound)
        if self.error == 0:
            return float(above >= 0)
        return float(stdtr(self.degrees, above / self.error))

    def detectable(self, alpha: float) -> float:
        """The smallest difference that a test at ``alpha`` finds with probability ``POWER``."""
        # The noncentrality at which Student's t is beyond its quantile that often.
        beyond = stdtrit(self.degrees, 1 - alpha / 2)
        reach = float(nctdtrinc(self.degrees, 1 - POWER, beyond)) * self.error
        return math.expm1(_bounded(reach))

    def units_for(self, difference: float, alpha: float) -> int | None:
        """The number of units that makes ``difference`` detectable, if they scatter as these do.

        None where no number does.
        """
        common = self.common.error if self.common else 0.0
        unit_error = math.sqrt(max(0.0, self.error**2 - common**2) * self.units)

        def enough(units: int) -> bool:
            error = unit_error / math.sqrt(units)
            several = Estimate(0.0, error, units, per_unit=self.per_unit)
            if self.common:
                several = several.widened(self.common)
            return several.detectable(alpha) <= difference

        units = bisect_left(range(_MOST_UNITS), True, lo=FEWEST_ROUNDS, key=enough)
        return units if units < _MOST_UNITS else None

    def _reach(self, alpha: float) -> float:
        return float(stdtrit(self.degrees, 1 - alpha / 2)) * self.error


def jackknife(
    units: Sequence[_Unit], statistic: Callable[[Sequence[_Unit]], float]
) -> Estimate | None:
    """Estimates a positive ``statistic`` of independent units by the delete-one jackknife.

    The error is that of Miller (Biometrika 61, 1974). For a geometric mean, the interval is the
    usual t interval of the logarithms. None for fewer than ``FEWEST_ROUNDS`` units, and where the
    statistic of all units, or of all but one, is 0 or infinite.
    """
    count = len(units)
    if count < FEWEST_ROUNDS:
        return None
    without_one = ([*units[:number], *units[number + 1 :]] for number in range(count))
    values = [statistic(chosen) for chosen in (units, *without_one)]
    if not all(0 < value < math.inf for value in values):
        return None
    estimate, *without = map(math.log, values)
    mean = math.fsum(without) / count
    variance = (count - 1) / count * math.fsum((log - mean) ** 2 for log in without)
    return Estimate(_bounded(estimate), math.sqrt(variance), count)


def pooled(estimates: Sequence[Estimate]) -> list[Estimate]:
    """Raises each estimate's error to that of all estimates together, where that is larger.

    The units are taken to scatter alike. A rare event is in few units, and an estimate without one
    looks too sure. The degrees of freedom are those of two estimates, however many there are,
    because rare events are not normal.
    """
    if len(estimates) < 2:
        return [*estimates]
    freedom = sum(each.units - 1 for each in estimates)
    variance = math.fsum((e.units - 1) * e.units * e.error**2 for e in estimates) / freedom
    return [
        replace(each, error=max(each.error, math.sqrt(variance / each.units)), per_unit=2)
        for each in estimates
    ]


def mean(estimates: Sequence[Estimate]) -> Estimate:
    """The geometric mean of independent estimates of one quantity."""
    first, *others = estimates
    if not others:
        return first
    count = len(estimates)
    error, freedom = _sum(*(Component(each.error / count, each.degrees) for each in estimates))
    log = math.fsum(each.log for each in estimates) / count
    return Estimate(log, error, min(each.units for each in estimates), freedom=freedom)


def geometric_mean(values: Sequence[float]) -> float:
    return math.exp(math.fsum(map(math.log, values)) / len(values))


def _bounded(log: float) -> float:
    """The logarithm, limited so that its exponential is finite and above 0."""
    return min(700.0, max(-700.0, log))


def _sum(*components: Component) -> Component:
    """The sum of independent errors, with the degrees of freedom of Welch and Satterthwaite
    (Biometrika 34, 1947, 28-35; Biometrics Bulletin 2, 1946, 110-114)."""
    largest = max(component.error for component in components)
    if largest == 0:
        return Component(0.0, min(component.freedom for component in components))
    # As parts of the largest: squares of tiny errors would vanish.
    shares = [((component.error / largest) ** 2, component.freedom) for component in components]
    total = math.fsum(share for share, _ in shares)
    lost = math.fsum(share**2 / freedom for share, freedom in shares)
    return Component(largest * math.sqrt(total), total**2 / lost)
