"""What a Capacity Block costs: it is sold by the day and prepaid, whatever of it is used.

EC2 User Guide, "Find and purchase Capacity Blocks" (2026-11-23): durations are whole days up to 14,
then whole weeks up to 182 days, and all blocks end at 11:30 UTC. One that starts at another time
lasts somewhat less or more (docs/assumptions.md).
"""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from typing import Final

from experiment.schema import Experiment, Purchase

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
    """Of one instance."""

    @property
    def usd(self) -> float:
        """All of it, in advance."""
        return self.hours * self.instances * self.usd_per_hour

    @property
    def formula(self) -> str:
        """E.g. ``24 h x 1 trn2.48xlarge x 35.7608``."""
        return f"{self.hours:.4g} h x {self.instances} {self.instance_type} x {self.usd_per_hour:g}"

    def used_usd(self, node_hours: float) -> float:
        """What its price says of the hours that are used."""
        return node_hours * self.usd_per_hour

    def to_pay(self, usd: float, node_hours: float) -> float:
        """A sum ``usd`` that counts ``node_hours`` by the hour, with the whole block instead."""
        return usd - self.used_usd(node_hours) + self.usd


def smallest(experiment: Experiment, hours: float) -> Block | None:
    """The shortest that leaves the nodes ``hours``, and at most 182 days.

    None where no block is bought: spot, a reservation, or on demand at a price that is on demand.
    """
    capacity = experiment.capacity
    if Purchase.CAPACITY_BLOCK not in (capacity.purchase, capacity.price.purchase):
        return None
    if capacity.purchase not in (Purchase.CAPACITY_BLOCK, Purchase.ON_DEMAND):
        return None
    wanted = datetime.timedelta(hours=hours) + SCALED_IN
    days = next((days for days in DAYS if datetime.timedelta(days=days) >= wanted), DAYS[-1])
    price = capacity.price.usd_per_hour
    return Block(days * 24, capacity.nodes, capacity.instance_type, price)
