"""An estimate with the bounds of its interval, and how it is written."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

_FINEST: Final = 3  # decimals of a ratio


@dataclass(frozen=True)
class Interval:
    """An estimate and the bounds of its confidence interval, in the estimate's unit."""

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

    def scaled(self, factor: float) -> Interval:
        """The same statement in another unit."""
        return Interval(factor * self.point, factor * self.low, factor * self.high)


def times(interval: Interval) -> str:
    """A speed-up: ``2.9x``."""
    return f"{interval.point:.{_decimals(interval)}f}x"


def bounds(interval: Interval) -> str:
    """The bounds of a speed-up: ``2.7-3.1``."""
    digits = _decimals(interval)
    return f"{interval.low:.{digits}f}-{interval.high:.{digits}f}"


def percents(ratio: Interval) -> tuple[str, str, str]:
    """How far a ratio and its bounds are off 1, without signs: ``("64", "63", "65")``."""
    deviations = [abs(value - 1) for value in (ratio.point, ratio.low, ratio.high)]
    coarsest = 0 if deviations[0] >= 0.1 else 1
    for digits in range(coarsest, _FINEST):
        point, low, high = (f"{100 * deviation:.{digits}f}" for deviation in deviations)
        if low != high:
            break
    return point, low, high


def estimate(
    point: float | None, interval: Interval | None, write: Callable[[float | None], str]
) -> str:
    """A figure with the bounds of its interval, if it has one: ``855.4 (851.3-856.9)``."""
    if interval is None:
        return write(point)
    return f"{write(point)} ({write(interval.low)}-{write(interval.high)})"


def _decimals(interval: Interval) -> int:
    # One decimal is what a reader remembers; more where it would not tell the bounds apart.
    coarsest = 1 if interval.point >= 2 else 2
    for digits in range(coarsest, _FINEST):
        if f"{interval.low:.{digits}f}" != f"{interval.high:.{digits}f}":
            return digits
    return _FINEST
