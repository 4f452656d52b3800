"""An estimate with the bounds of its interval, and how it is written."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from spectap import wording

_FINEST: Final = 3  # decimals of a ratio
_VAGUE: Final = 10  # times from one bound to the other


@dataclass(frozen=True)
class Interval:
    """An estimate and the bounds of its confidence interval, in the estimate's unit."""

    point: float
    low: float
    high: float

    def within(self, margin: float) -> bool:
        """Whether every value it allows is less than ``margin`` (0.05: 5 %) off 1, either way."""
        return 1 / (1 + margin) < self.low and self.high < 1 + margin

    @property
    def vague(self) -> bool:
        """Whether it says nothing that anybody could decide by."""
        return self.high > _VAGUE * self.low

    @property
    def inverse(self) -> Interval:
        return Interval(1 / self.point, 1 / self.high, 1 / self.low)

    def scaled(self, factor: float) -> Interval:
        return Interval(factor * self.point, factor * self.low, factor * self.high)


def times(interval: Interval) -> str:
    """A speed-up: ``2.9x``."""
    return f"{interval.point:.{_decimals(interval)}f}x"


def bounds(interval: Interval) -> str:
    """The bounds of a speed-up: ``2.7-3.1``."""
    digits = _decimals(interval)
    return f"{interval.low:.{digits}f}-{interval.high:.{digits}f}"


def change(ratio: Interval) -> tuple[str, str]:
    """How far a ratio is off 1, and its bounds: ``+9.8 %``, ``+4.1 to +16 %``."""
    ends = (ratio.point, ratio.low, ratio.high)
    for digits in range(0 if abs(ratio.point - 1) >= 0.1 else 1, _FINEST):
        point, low, high = (f"{100 * (end - 1):+.{digits}f}" for end in ends)
        if low != high:
            break
    point, low, high = (
        f"{wording.MINUS if float(text) < 0 else '+'}{text[1:]}" for text in (point, low, high)
    )
    return f"{point} %", f"{low} to {high} %"


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
