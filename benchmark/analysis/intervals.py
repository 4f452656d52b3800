"""How certain a ratio of two medians or a load's throughput is, and how that is written."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

CONFIDENCE: Final = 0.95
RESAMPLES: Final = 4000
SEED: Final = 20260521

# The smallest sample whose range covers its median with 95 % confidence: 1 - 2 / 2**6 = 97 %.
MINIMUM_SAMPLE: Final = 6

_FINEST: Final = 3  # decimals of a ratio
_BATCH: Final = 1_000_000  # values drawn at a time, so that memory does not grow with the run


@dataclass(frozen=True)
class Interval:
    """An estimate and the bounds of its confidence interval: of a speed-up, a ratio (no unit)."""

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


def span(interval: Interval) -> str:
    """The bounds of a speed-up: ``2.7-3.1``."""
    digits = _decimals(interval)
    return f"{interval.low:.{digits}f}-{interval.high:.{digits}f}"


def estimate(
    point: float | None, interval: Interval | None, write: Callable[[float | None], str]
) -> str:
    """A figure with the bounds of its interval, if it has one: ``855.4 (851.3-856.9)``."""
    if interval is None:
        return write(point)
    return f"{write(point)} ({write(interval.low)}-{write(interval.high)})"


def ratio_of_medians(numerator: Sequence[float], denominator: Sequence[float]) -> Interval | None:
    """The ratio of two medians with its 95 % percentile-bootstrap interval (Efron, 1979).

    Medians, not means: one stalled request must not decide a case. Each side is resampled on its
    own and always from the same seed, so the same ledger gives the same interval, whatever else is
    computed. Returns None where a side has fewer than ``MINIMUM_SAMPLE`` values, or where the
    median of a resample is not above 0.
    """
    if min(len(numerator), len(denominator)) < MINIMUM_SAMPLE:
        return None
    above, below = np.asarray(numerator, float), np.asarray(denominator, float)
    generator = np.random.default_rng(SEED)
    medians = _medians(above, generator), _medians(below, generator)
    # The medians, not the values: an answer that arrives in one piece has a time per token of 0.
    if min(side.min() for side in medians) <= 0:
        return None
    return _interval(float(np.median(above) / np.median(below)), medians[0] / medians[1])


def throughput(
    rounds: Sequence[Sequence[tuple[float, int]]], busy_seconds: float, concurrency: int
) -> Interval | None:
    """Tokens per second of a closed-loop load with its 95 % percentile-bootstrap interval.

    ``rounds``: for each round the (seconds, tokens) of its requests, in the order of their sending;
    a failed request has 0 tokens. ``busy_seconds``: the time in which any of them was in
    flight.

    The requests of all rounds are resampled, each with its time and its tokens. Every round is then
    replayed with as many requests as it had: ``concurrency`` at once, the next one when one ends.
    That way the end of a round, when fewer requests are in flight, is as uncertain as in a run.
    (With a fixed mean number in flight the interval would be up to a quarter too narrow.) A run
    takes longer than its replay, because its driver pauses; that time is added in proportion.

    Returns None where fewer than ``MINIMUM_SAMPLE`` requests have tokens, since some resamples
    would then have none, or where a request took no time.
    """
    requests = [request for of_round in rounds for request in of_round]
    if sum(tokens > 0 for _, tokens in requests) < MINIMUM_SAMPLE:
        return None
    seconds, tokens = np.array(requests, float).T
    if seconds.min() <= 0:
        return None
    ends = np.cumsum([len(of_round) for of_round in rounds])[:-1]
    stretch = busy_seconds / _replay(seconds[np.newaxis], ends, concurrency)[0]
    generator = np.random.default_rng(SEED)
    speeds = np.empty(RESAMPLES)
    for part, size in _batches(len(requests)):
        drawn = generator.integers(0, len(requests), size)
        speeds[part] = tokens[drawn].sum(axis=1) / _replay(seconds[drawn], ends, concurrency)
    return _interval(float(tokens.sum() / busy_seconds), speeds / stretch)


def _replay(
    seconds: NDArray[np.float64], ends: NDArray[np.int64], concurrency: int
) -> NDArray[np.float64]:
    """Seconds that all rounds take, for each row of requests; ``ends`` are where a round ends."""
    busy, rows = np.zeros(len(seconds)), np.arange(len(seconds))
    for of_round in np.split(seconds, ends, axis=1):
        free_at = np.zeros((len(seconds), concurrency))
        for request in of_round.T:
            free_at[rows, free_at.argmin(axis=1)] += request
        busy += free_at.max(axis=1)
    return busy


def _interval(point: float, resampled: NDArray[np.float64]) -> Interval:
    tail = 100 * (1 - CONFIDENCE) / 2
    low, high = np.percentile(resampled, [tail, 100 - tail])
    return Interval(point, float(low), float(high))


def _medians(values: NDArray[np.float64], generator: np.random.Generator) -> NDArray[np.float64]:
    medians = np.empty(RESAMPLES)
    for part, size in _batches(len(values)):
        medians[part] = np.median(generator.choice(values, size), axis=1)
    return medians


def _batches(sample: int) -> Iterator[tuple[slice, tuple[int, int]]]:
    """Which resamples to draw together, and the shape of what is drawn."""
    rows = max(1, _BATCH // sample)
    for start in range(0, RESAMPLES, rows):
        yield slice(start, start + rows), (min(rows, RESAMPLES - start), sample)


def _decimals(interval: Interval) -> int:
    # One decimal is what a reader remembers; more where it would not tell the bounds apart.
    coarsest = 1 if interval.point >= 2 else 2
    for digits in range(coarsest, _FINEST):
        if f"{interval.low:.{digits}f}" != f"{interval.high:.{digits}f}":
            return digits
    return _FINEST
