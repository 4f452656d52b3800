"""Costs of an experiment, before it is deployed: by hour, by stage and in all.

Pure: every figure follows from the experiment, from dated prices and from assumed durations.

A Capacity Block is prepaid, whatever of it is used. One asks for whole days up to 14, or whole
weeks up to 182 days (EC2 API, ``DescribeCapacityBlockOfferings``). All blocks end at 11:30 UTC, so
one that begins at once lasts less or more: docs/cost.md has what was offered.
"""

import datetime
import math
from dataclasses import dataclass
from typing import Final

from experiment.cost.prices import ALWAYS, CostGroup, Part, parts
from experiment.cost.timeline import GENEROUS, Stage, estimate, stages
from experiment.schema import Capacity, Experiment, Purchase

__all__ = ["Cost", "CostGroup", "cost", "guard_hours"]

DAYS: Final[tuple[int, ...]] = (*range(1, 15), *range(21, 183, 7))

SCALED_IN: Final = datetime.timedelta(minutes=40)
"""The time before the end of a Capacity Block at which EKS takes its nodes away (EKS User Guide,
"Use Capacity Blocks for ML with managed node groups")."""


def shortest_block(hours: float) -> float:
    """Hours of the shortest block that leaves the nodes ``hours``; 182 days if none does."""
    needed = datetime.timedelta(hours=hours) + SCALED_IN
    return 24 * next((days for days in DAYS if datetime.timedelta(days=days) >= needed), DAYS[-1])


@dataclass(frozen=True)
class Cost:
    """The cost of all stages, if nothing exists yet and the nodes end with the last result."""

    capacity: Capacity
    parts: tuple[Part, ...]
    stages: tuple[Stage, ...]

    @property
    def is_prepaid(self) -> bool:
        """Whether the Trainium nodes are from a Capacity Block, which is bought as a whole."""
        return self.capacity.purchase is Purchase.CAPACITY_BLOCK

    @property
    def hours(self) -> float:
        return sum(stage.hours for stage in self.stages)

    @property
    def usd(self) -> float:
        return sum(stage.usd for stage in self.stages)

    @property
    def block_hours(self) -> float:
        """Hours of the Capacity Block that all stages need."""
        return shortest_block(self.hours_of(CostGroup.TRAINIUM))

    @property
    def usd_with_block(self) -> float:
        """USD in all, with the whole block instead of the hours used."""
        unused = self.block_hours - self.hours_of(CostGroup.TRAINIUM)
        return self.usd + self.capacity.nodes * unused * self.capacity.price.usd_per_hour

    @property
    def usd_to_pay(self) -> float:
        return self.usd_with_block if self.is_prepaid else self.usd

    @property
    def amount(self) -> str:
        used = f" ({self.usd:.2f} used; the Capacity Block is paid as a whole)"
        return f"{self.usd_to_pay:.2f} USD{used if self.is_prepaid else ''}"

    @property
    def idle_usd_per_hour(self) -> float:
        """Cost between runs, without Trainium and compile nodes."""
        return sum(part.usd_per_hour for part in self.parts if part.group in ALWAYS)

    def hours_of(self, group: CostGroup) -> float:
        """Hours during which this group runs."""
        return sum(stage.hours for stage in self.stages if group in stage.groups)


def cost(experiment: Experiment) -> Cost:
    """The estimated cost of ``experiment``."""
    taking_time = tuple(stage for stage in stages(experiment) if stage.seconds)
    return Cost(experiment.capacity, parts(experiment), taking_time)


def guard_hours(experiment: Experiment) -> float:
    """Hours for which the Trainium nodes may run: ``max_hours``.

    A sweep's nodes may run no longer than ``sweep.at_most_usd`` pays for, after its compiles on CPU
    nodes.
    """
    capacity, hours = experiment.capacity, max_hours(experiment)
    if experiment.sweep is None:
        return hours
    remaining_usd = experiment.sweep.at_most_usd - estimate(experiment).compile_usd
    return min(hours, remaining_usd / (capacity.nodes * capacity.price.usd_per_hour))


def max_hours(experiment: Experiment) -> float:
    """``capacity.max_hours``; by default ``GENEROUS`` times the hours that need the nodes."""
    if experiment.capacity.max_hours is not None:
        return experiment.capacity.max_hours
    return math.ceil(GENEROUS * cost(experiment).hours_of(CostGroup.TRAINIUM))


def compile_guard_hours(experiment: Experiment) -> float:
    """Hours for which compile nodes may run: ``GENEROUS`` times those of the compiles."""
    return math.ceil(GENEROUS * cost(experiment).hours_of(CostGroup.COMPILE))
