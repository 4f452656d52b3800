"""Costs of an experiment so far, and of an hour of what is running."""

import datetime
import re
from dataclasses import dataclass
from typing import Final

from experiment.cost.prices import CostGroup, usd_per_hour, usd_per_node_hour
from experiment.schema import Purchase
from operations import nodes
from operations.account import Deployment, aws_errors
from operations.nodes import Kind

_REMEMBERED: Final = datetime.timedelta(weeks=6)
"""How long Auto Scaling keeps its activities (API reference, DescribeScalingActivities)."""

_INSTANCE: Final = re.compile(r"(Launching|Terminating).*?\b(i-[0-9a-f]+)")
"""A description: ``Launching a new EC2 instance: i-0123``, ``Terminating EC2 instance: i-0123``
(Auto Scaling User Guide, "Verify a scaling activity"). A launch that failed names no instance."""


@dataclass(frozen=True)
class Part:
    """A node group, or the stack of the network or of the cluster."""

    group: CostGroup
    running: int
    """How many nodes are running; of a stack 1."""
    hours: float
    """Sum over all nodes."""
    usd_each: float
    """An hour, of one."""

    @property
    def usd(self) -> float:
        return self.hours * self.usd_each

    @property
    def usd_per_hour(self) -> float:
        return self.running * self.usd_each


@dataclass(frozen=True)
class Spent:
    """Dollars by list prices and by ``capacity.price``, from the first stack's creation to now."""

    since: datetime.datetime | None
    """When the first stack was made. None if there is none."""
    parts: tuple[Part, ...]
    is_prepaid: bool
    """Whether a Capacity Block is paid for as a whole, whatever of it is used."""

    @property
    def usd(self) -> float:
        return sum(part.usd for part in self.parts)

    @property
    def amount(self) -> str:
        block = " used (the Capacity Block is paid as a whole)" if self.is_prepaid else ""
        return f"{self.usd:.2f} USD{block}"

    @property
    def usd_per_hour(self) -> float:
        return sum(part.usd_per_hour for part in self.parts)


def spent(deployment: Deployment, at: datetime.datetime | None = None) -> Spent:
    """Spending until ``at``, or until now.

    It asks CloudFormation, EKS and Auto Scaling, so it knows neither bytes nor requests.
    """
    at = at or datetime.datetime.now(datetime.UTC)
    created = {
        group: stack["CreationTime"]
        for group in (CostGroup.NETWORK, CostGroup.CLUSTER)
        if (stack := deployment.stack(f"{deployment.name}-{group}"))
    }
    stacks = [
        Part(group, 1, _hours(at - since), usd_per_hour(deployment.experiment, {group}))
        for group, since in created.items()
    ]
    groups = [_group(deployment, group, at) for group in nodes.groups(deployment)]
    is_prepaid = deployment.experiment.capacity.purchase is Purchase.CAPACITY_BLOCK
    return Spent(min(created.values(), default=None), (*stacks, *groups), is_prepaid)


def _group(deployment: Deployment, group: nodes.Group, at: datetime.datetime) -> Part:
    """Instances of a node group: from the start of a launch to the end of its termination.

    That is some minutes more than EC2 bills. An instance whose launch is forgotten counts from the
    earliest that is remembered.
    """
    began: dict[str, datetime.datetime] = {}
    ended: dict[str, datetime.datetime] = {}
    created: dict[str, datetime.datetime] = {}
    """When the Auto Scaling group of each running instance was created."""
    with aws_errors():
        client = deployment.client("autoscaling")
        for name in group.scaling_groups:
            described = client.describe_auto_scaling_groups(AutoScalingGroupNames=[name])
            created |= {
                instance["InstanceId"]: scaling_group["CreatedTime"]
                for scaling_group in described["AutoScalingGroups"]
                for instance in scaling_group["Instances"]
            }
            pages = client.get_paginator("describe_scaling_activities")
            for page in pages.paginate(AutoScalingGroupName=name):
                for activity in page["Activities"]:
                    match = _INSTANCE.match(activity["Description"])
                    if match is None or activity["StatusCode"] in ("Failed", "Cancelled"):
                        continue
                    action, instance = match.groups()
                    if action == "Launching":
                        began[instance] = activity["StartTime"]
                    elif activity["StatusCode"] == "Successful":
                        ended[instance] = activity.get("EndTime", activity["StartTime"])
    earliest = at - _REMEMBERED
    for instance in {*created, *ended} - {*began}:
        began[instance] = max(created.get(instance, earliest), earliest)
    running = len(began.keys() - ended.keys())
    hours = sum(_hours(ended.get(instance, at) - since) for instance, since in began.items())
    part = CostGroup.TRAINIUM if group.kind is Kind.TRAINIUM else CostGroup.COMPILE
    return Part(part, running, hours, usd_per_node_hour(deployment.experiment, part))


def _hours(time: datetime.timedelta) -> float:
    return max(time.total_seconds(), 0) / 3600
