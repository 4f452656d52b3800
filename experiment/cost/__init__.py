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

from experiment.cost.durations import GENEROUS, Stage, estimate, stages
from experiment.cost.prices import ALWAYS, CostGroup, Part, parts
from experiment.schema import Experiment, Purchase

__all__ = ["Block", "Cost", "CostGroup", "Part", "Stage", "cost", "guard_hours"]

DAYS: Final = (*range(1, 15), *range(21, 183, 7))

SCALED_IN: Final = datetime.timedelta(minutes=40)
"""EKS takes the nodes of a Capacity Block away so long before it ends (EKS User Guide, "Use
Capacity Blocks for ML with managed node groups")."""


@dataclass(frozen=True)
class Block:
    """One Capacity Block."""

    hours: float
    instances: int
    instance_type: str
    usd_per_hour: float
    """Price of one instance."""

    @property
    def usd(self) -> float:
        return self.hours * self.instances * self.usd_per_hour


def shortest_block(experiment: Experiment, hours: float) -> Block:
    """The shortest in whole days that leaves the nodes ``hours``; 182 days if none does."""
    capacity = experiment.capacity
    needed = datetime.timedelta(hours=hours) + SCALED_IN
    days = next((days for days in DAYS if datetime.timedelta(days=days) >= needed), DAYS[-1])
    price = capacity.price.usd_per_hour
    return Block(days * 24, capacity.nodes, capacity.instance_type, price)


@dataclass(frozen=True)
class Cost:
    """The whole way, if nothing of it is there yet, and the nodes go with the last result."""

    parts: tuple[Part, ...]
    stages: tuple[Stage, ...]
    block: Block | None
    """The Capacity Block to buy, where the Trainium nodes are of one."""

    @property
    def hours(self) -> float:
        return sum(stage.hours for stage in self.stages)

    @property
    def usd(self) -> float:
        return sum(stage.usd for stage in self.stages)

    @property
    def usd_to_pay(self) -> float:
        return self.usd_with(self.block) if self.block else self.usd

    def usd_with(self, block: Block) -> float:
        """USD in all with the whole ``block`` in place of the hours used of it."""
        node_hours = block.instances * self.hours_of(CostGroup.TRAINIUM)
        return self.usd - node_hours * block.usd_per_hour + block.usd

    @property
    def amount(self) -> str:
        used = f" ({self.usd:.2f} used; the Capacity Block is paid as a whole)"
        return f"{self.usd_to_pay:.2f} USD{used if self.block else ''}"

    @property
    def idle_usd_per_hour(self) -> float:
        """Cost between runs, without Trainium and compile nodes."""
        return sum(part.usd_per_hour for part in self.parts if part.group in ALWAYS)

    def hours_of(self, group: CostGroup) -> float:
        """Hours during which this group runs."""
        return sum(stage.hours for stage in self.stages if group in stage.groups)


def cost(experiment: Experiment) -> Cost:
    """The estimated cost of ``experiment``."""
    in_order = tuple(stage for stage in stages(experiment) if stage.seconds)
    hours = sum(stage.hours for stage in in_order if CostGroup.TRAINIUM in stage.groups)
    is_block = experiment.capacity.purchase is Purchase.CAPACITY_BLOCK
    block = shortest_block(experiment, hours) if is_block else None
    return Cost(parts(experiment), in_order, block)


def guard_hours(experiment: Experiment) -> float:
    """Hours for which the Trainium nodes may stand: ``max_hours``.

    Of a sweep no more than ``sweep.at_most_usd`` pays for, after its compiles on CPU nodes.
    """
    capacity, hours = experiment.capacity, max_hours(experiment)
    if experiment.sweep is None:
        return hours
    remaining_usd = experiment.sweep.at_most_usd - estimate(experiment).compile_usd
    return min(hours, remaining_usd / (capacity.nodes * capacity.price.usd_per_hour))


def max_hours(experiment: Experiment) -> float:
    """``capacity.max_hours``; by default ``GENEROUS`` times what all stages with them take."""
    if experiment.capacity.max_hours is not None:
        return experiment.capacity.max_hours
    return math.ceil(GENEROUS * cost(experiment).hours_of(CostGroup.TRAINIUM))


def compile_guard_hours(experiment: Experiment) -> float:
    """Hours for which compile nodes may stand: ``GENEROUS`` times what the compiles take."""
    return math.ceil(GENEROUS * cost(experiment).hours_of(CostGroup.COMPILE))
