"""Up to which load a variant is better than its baseline, and from which load on it is worse.

The bounds come from a fixed sequence of tests (Maurer, Hothorn and Lehmacher, Multiple comparisons
in drug clinical trials and preclinical assays, 1995): upward from the lowest load as long as the
variant is better, downward from the highest as long as it is worse. Each sequence stops at the
first load that it cannot claim. So the chance that it claims any load wrongly is that of one test,
however many loads there are. If the variant only loses as the load grows, the load at which it
turns lies between the two bounds as often as their level says, without a model of how it loses.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise, takewhile
from typing import Final

from scipy.optimize import isotonic_regression

from spectap.analysis.estimates.estimate import Estimate
from spectap.analysis.summary import Answer, Crossover

_LEAST_VARIANCE: Final = 1e-12


@dataclass(frozen=True)
class Rung:
    """What is known of a variant against its baseline at one load."""

    load: float
    """Requests at once, or a second."""
    estimate: Estimate | None
    """Of the ratio, above 1 where the variant is better; None where there is none."""
    answer: Answer | None
    """As far as it is decided among all claims of the report."""


def crossover(rungs: Iterable[Rung], alpha: float) -> Crossover:
    """Where the ratio falls below 1; ``rungs`` lowest first. Those without an estimate are left
    out. Both bounds hold together with the chance 1 - ``alpha``."""
    known = [(rung.load, rung.estimate) for rung in rungs if rung.estimate]
    intervals = [(load, estimate.interval(alpha)) for load, estimate in known]
    better = [load for load, _ in takewhile(lambda one: one[1].low > 1, intervals)]
    worse = [load for load, _ in takewhile(lambda one: one[1].high < 1, reversed(intervals))]
    return Crossover(
        point=_point(known),
        better_up_to=better[-1] if better else None,
        worse_from=worse[-1] if worse else None,
    )


def _point(known: Sequence[tuple[float, Estimate]]) -> float | None:
    """Where a falling line through the estimates crosses 1.

    The line is that of isotonic regression (Barlow and others, Statistical inference under order
    restrictions, 1972), so that scatter makes no second crossing. Between two loads it is straight
    in the logarithms of both.
    """
    if not known:
        return None
    fitted = isotonic_regression(
        [estimate.log for _, estimate in known],
        weights=[1 / max(estimate.error**2, _LEAST_VARIANCE) for _, estimate in known],
        increasing=False,
    ).x
    for ((low, _), (high, _)), (above, below) in zip(
        pairwise(known), pairwise(fitted), strict=True
    ):
        if above >= 0 > below:
            part = above / (above - below)
            return float(math.exp(math.log(low) + part * math.log(high / low)))
    return None
