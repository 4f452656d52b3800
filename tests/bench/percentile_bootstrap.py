"""The method before: the percentile bootstrap of a ratio of two medians (Efron, 1979).

It resamples requests as if they were independent. It is kept as the measure of how wide an interval
may be, and to show what the tests of coverage find.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from spectap import metrics
from spectap.analysis.estimates.intervals import Interval
from spectap.record import Record
from tests.bench.simulation import SIDES

_RESAMPLES: Final = 4000
_SEED: Final = 20260521


def bootstrapped(records: Iterable[Record]) -> Iterator[Interval]:
    """The 95 % interval of each test case's speed-up by time per output token."""
    by_case: dict[str, tuple[list[float], list[float]]] = {}
    for record in records:
        seconds = metrics.time_per_output_token(record)
        if seconds is not None:
            sides = by_case.setdefault(record.case, ([], []))
            sides[SIDES.index(record.variant)].append(seconds)
    return (_ratio_of_medians(*sides) for sides in by_case.values())


def _ratio_of_medians(numerator: Sequence[float], denominator: Sequence[float]) -> Interval:
    generator = np.random.default_rng(_SEED)
    above, below = _medians(numerator, generator), _medians(denominator, generator)
    low, high = np.percentile(above / below, [2.5, 97.5])
    return Interval(float(np.median(numerator) / np.median(denominator)), float(low), float(high))


def _medians(values: Sequence[float], generator: np.random.Generator) -> NDArray[np.float64]:
    drawn = generator.choice(np.asarray(values, float), (_RESAMPLES, len(values)))
    medians: NDArray[np.float64] = np.median(drawn, axis=1)
    return medians
