"""The load up to which a variant is better than its baseline, and that from which it is worse.

Both bounds come from a fixed sequence of tests (Maurer, Hothorn and Lehmacher, 1995): upward from
the lowest load while the variant is better, downward from the highest while it is worse.
"""

import math
from collections.abc import Sequence
from itertools import pairwise, takewhile
from typing import Final

from spectap.analysis.estimate import Estimate
from spectap.analysis.summary import Crossover

_LEAST_VARIANCE: Final = 1e-12


Rungs = Sequence[tuple[float, Estimate]]
"""Loads, lowest first, each with a ratio; above 1 the variant is better. A load is in requests at
once, or a second."""


def crossover(rungs: Rungs, alpha: float) -> Crossover:
    """The load at which the ratio falls below 1. Both bounds hold with the chance 1 - ``alpha``."""
    intervals = [(load, estimate.interval(alpha)) for load, estimate in rungs]
    better = [*takewhile(lambda at_load: at_load[1].low > 1, intervals)]
    worse = [*takewhile(lambda at_load: at_load[1].high < 1, reversed(intervals))]
    return Crossover(
        point=_point(rungs),
        better_up_to=better[-1][0] if better else None,
        worse_from=worse[-1][0] if worse else None,
    )


def _point(rungs: Rungs) -> float | None:
    """The load at which the isotonic regression of the estimates crosses 1; scatter makes no second
    crossing. Between two loads it is a line in the logarithms of both."""
    if not rungs:
        return None
    # Here, since it takes a third of a second, and few runs have a ladder.
    from scipy.optimize import isotonic_regression

    fitted = isotonic_regression(
        [estimate.log for _, estimate in rungs],
        weights=[1 / max(estimate.error**2, _LEAST_VARIANCE) for _, estimate in rungs],
        increasing=False,
    ).x
    for ((low, _), (high, _)), (above, below) in zip(
        pairwise(rungs), pairwise(fitted), strict=True
    ):
        if above >= 0 > below:
            fraction = above / (above - below)
            return float(math.exp(math.log(low) + fraction * math.log(high / low)))
    return None
