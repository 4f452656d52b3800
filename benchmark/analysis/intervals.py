"""How sure a ratio of two medians is, and the throughput of a load."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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


def ratio_of_medians(numerator: Sequence[float], denominator: Sequence[float]) -> Interval | None:
    """The ratio of two medians with its 95 % percentile-bootstrap interval (Efron, 1979).

    Medians rather than means: one stalled request must not decide a case. Each side is resampled
    by itself, always from the same seed, so the same ledger gives the same interval whatever else
    is computed beside it. None where a side is smaller than ``MINIMUM_SAMPLE`` or its median may be
    0 or less.
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

    ``rounds``: of each round (seconds, tokens) of its requests, in the order of their sending; one
    that failed has 0 tokens. ``busy_seconds``: in which any of them was in flight.

    Resampled are the requests of all rounds, each with its time and its tokens. Every round is then
    replayed with as many of them as it had, ``concurrency`` at once, the next one when one ends: so
    its end, when fewer are in flight, is as uncertain as in a run. (With the mean number in flight
    taken as given, the interval would be up to a quarter too narrow.) What the run took longer than
    its own replay, the pauses of its driver, is added in proportion.

    None where fewer than ``MINIMUM_SAMPLE`` requests have tokens, so that hardly any resample is
    without, or where one took no time.
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
    """How long the rounds take together, for each row of requests; they part at ``ends``."""
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
