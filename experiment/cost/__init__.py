"""What an experiment costs, before it is deployed: by hour, by stage and in all.

Pure: every figure follows from the experiment, from dated prices and from assumed durations.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from experiment.cost.block import Block, smallest
from experiment.cost.prices import HOURS_PER_MONTH
from experiment.cost.stages import Stage, stages
from experiment.cost.standing import ALWAYS, Part, Standing, parts, usd_per_hour
from experiment.schema import Experiment

__all__ = ["Block", "Cost", "Part", "Stage", "Standing", "cost"]


@dataclass(frozen=True)
class Cost:
    """The whole way, if nothing of it is there yet, and the nodes go with the last result."""

    parts: tuple[Part, ...]
    stages: tuple[Stage, ...]
    idle_usd_per_hour: float
    """What stands between runs: no Trainium node and no compile node."""
    block: Block | None
    """What must be bought for the Trainium nodes, if they are sold by the day."""

    @property
    def hours(self) -> float:
        """All stages, one after the other."""
        return sum(stage.hours for stage in self.stages)

    @property
    def usd(self) -> float:
        """All stages: hours x price of what is used."""
        return sum(stage.usd for stage in self.stages)

    @property
    def usd_to_pay(self) -> float:
        """The same, with the whole Capacity Block in place of its used hours."""
        if self.block is None:
            return self.usd
        return self.block.to_pay(self.usd, self.block.instances * self.hours_of(Standing.TRAINIUM))

    @property
    def amount(self) -> str:
        """Every total, e.g. ``55.89 USD (870.87 with the whole Capacity Block)``."""
        bought = f" ({self.usd_to_pay:.2f} with the whole Capacity Block)" if self.block else ""
        return f"{self.usd:.2f} USD{bought}"

    @property
    def idle_usd_per_month(self) -> float:
        """Hours of a month x what stands between runs."""
        return HOURS_PER_MONTH * self.idle_usd_per_hour

    def hours_of(self, standing: Standing) -> float:
        """The stages in which that stands."""
        return sum(stage.hours for stage in self.stages if standing in stage.standing)

    @property
    def by_part(self) -> Mapping[Part, float]:
        """Dollars of each part in all: its price an hour x the stages in which it stands."""
        return {part: part.usd_per_hour * self.hours_of(part.standing) for part in self.parts}


def cost(experiment: Experiment) -> Cost:
    """What ``experiment`` costs by estimate."""
    in_order = stages(experiment)
    hours = sum(stage.hours for stage in in_order if Standing.TRAINIUM in stage.standing)
    return Cost(
        parts(experiment),
        in_order,
        usd_per_hour(experiment, ALWAYS),
        smallest(experiment, hours),
    )
