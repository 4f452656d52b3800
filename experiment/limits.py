"""How long nodes may stand at most: when their guard scales them to 0, whatever runs on them."""

from __future__ import annotations

import math

from experiment.cost import Standing, cost
from experiment.estimate import GENEROUS, estimate
from experiment.schema import Experiment


def guard_hours(experiment: Experiment) -> float:
    """Hours for which the Trainium nodes may stand: ``max_hours``.

    Of a sweep no more than ``sweep.at_most_usd`` pays for, after its compiles on CPU nodes.
    """
    capacity, hours = experiment.capacity, max_hours(experiment)
    if experiment.sweep is None:
        return hours
    left = experiment.sweep.at_most_usd - estimate(experiment).compile_usd
    return min(hours, left / (capacity.nodes * capacity.price.usd_per_hour))


def max_hours(experiment: Experiment) -> float:
    """``capacity.max_hours``; by default ``GENEROUS`` times what all stages with them take."""
    if experiment.capacity.max_hours is not None:
        return experiment.capacity.max_hours
    return _generous(experiment, Standing.TRAINIUM)


def compile_guard_hours(experiment: Experiment) -> float:
    """Hours for which compile nodes may stand: ``GENEROUS`` times what the compiles take."""
    return _generous(experiment, Standing.COMPILE)


def _generous(experiment: Experiment, standing: Standing) -> float:
    """Whole hours."""
    return math.ceil(GENEROUS * cost(experiment).hours_of(standing))
