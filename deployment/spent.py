"""What an experiment has cost so far, and what an hour of what is running costs."""

from __future__ import annotations

import datetime
import re
from dataclasses import dataclass
from typing import Final

from botocore.exceptions import ClientError

from deployment import nodes
from deployment.account import Deployment, aws_errors
from deployment.nodes import Kind
from experiment.cost import Block
from experiment.cost.prices import CostGroup, usd_per_hour, usd_per_node_hour
from experiment.schema import Purchase

_PARTS: Final = {Kind.TRAINIUM: CostGroup.TRAINIUM, Kind.COMPILE: CostGroup.COMPILE}

_REMEMBERED: Final = datetime.timedelta(weeks=6)
"""How long Auto Scaling keeps its activities (API reference, DescribeScalingActivities)."""

_UNPAID: Final = frozenset({"cancelled", "failed", "payment-failed", "unsupported"})
"""States of a Capacity Block that nobody has paid for."""

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
    """Of all nodes added up."""
    usd_each: float
    """An hour, of one."""
    since: datetime.datetime | None
    """When the oldest of those that are running came."""

    @property
    def usd(self) -> float:
        """So far."""
        return self.hours * self.usd_each

    @property
    def usd_per_hour(self) -> float:
        """Of those that are running."""
        return self.running * self.usd_each

    @property
    def formula(self) -> str:
        """E.g. ``1.25 h x 35.82``."""
        return f"{self.hours:.2f} h x {self.usd_each:.2f}"


@dataclass(frozen=True)
class Spent:
    """Dollars by list prices and by ``capacity.price``, from the first stack's creation to now."""

    since: datetime.datetime | None
    """When the first stack was made. None if there is none."""
    parts: tuple[Part, ...]
    block: Block | None
    """The Capacity Block of ``capacity.reservation_id``, which is paid for whatever is used."""

    @property
    def usd(self) -> float:
        """Of all parts: hours x price."""
        return sum(part.usd for part in self.parts)

    @property
    def amount(self) -> str:
        """What is used, e.g. ``43.28 USD``, and with a Capacity Block what is paid."""
        if self.block is None:
            return f"{self.usd:.2f} USD"
        hours = sum(part.hours for part in self.parts if part.group is CostGroup.TRAINIUM)
        paid = self.block.to_pay(self.usd, hours)
        return f"{self.usd:.2f} USD used, {paid:.2f} USD paid with the whole Capacity Block"

    @property
    def usd_per_hour(self) -> float:
        """Of all that is running."""
        return sum(part.usd_per_hour for part in self.parts)


def spent(deployment: Deployment, at: datetime.datetime | None = None) -> Spent:
    """What was spent until ``at``, or until now. Raises DeploymentError.

    It asks CloudFormation, EKS, Auto Scaling and EC2, so it knows neither bytes nor requests.
    """
    at = at or datetime.datetime.now(datetime.UTC)
    stacks = [
        _stack(deployment, group, stack["CreationTime"], at)
        for group in (CostGroup.NETWORK, CostGroup.CLUSTER)
        if (stack := deployment.stack(f"{deployment.name}-{group}"))
    ]
    groups = [_group(deployment, group, at) for group in nodes.groups(deployment)]
    since = min((stack.since for stack in stacks if stack.since), default=None)
    return Spent(since, (*stacks, *groups), _block(deployment))


def _block(deployment: Deployment) -> Block | None:
    """As EC2 describes it. None if none was bought, or EC2 describes it no more."""
    capacity = deployment.experiment.capacity
    if capacity.purchase is not Purchase.CAPACITY_BLOCK:
        return None
    with aws_errors():
        try:
            (block,) = deployment.client("ec2").describe_capacity_reservations(
                CapacityReservationIds=[capacity.reservation_id]
            )["CapacityReservations"]
        except ClientError as error:
            if error.response["Error"]["Code"].startswith("InvalidCapacityReservationId"):
                return None
            raise
    begin, end = block.get("StartDate"), block.get("EndDate")
    if begin is None or end is None or block["State"] in _UNPAID:
        return None
    count, price = block["TotalInstanceCount"], capacity.price.usd_per_hour
    return Block(_hours(end - begin), count, capacity.instance_type, price)


def _stack(
    deployment: Deployment, group: CostGroup, since: datetime.datetime, at: datetime.datetime
) -> Part:
    """What costs from a stack's creation on."""
    usd_each = usd_per_hour(deployment.experiment, {group})
    return Part(group, 1, _hours(at - since), usd_each, since)


def _group(deployment: Deployment, group: nodes.Group, at: datetime.datetime) -> Part:
    """What ran in a node group: from the start of a launch to the end of its termination.

    That is some minutes more than EC2 bills. An instance whose launch is forgotten counts from the
    earliest that is remembered.
    """
    began: dict[str, datetime.datetime] = {}
    ended: dict[str, datetime.datetime] = {}
    created: dict[str, datetime.datetime] = {}
    """Of each instance that is running, when its Auto Scaling group was."""
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
    running = [since for instance, since in began.items() if instance not in ended]
    hours = sum(_hours(ended.get(instance, at) - since) for instance, since in began.items())
    cost_group = _PARTS[group.kind]
    usd_each = usd_per_node_hour(deployment.experiment, cost_group)
    return Part(cost_group, len(running), hours, usd_each, min(running, default=None))


def _hours(time: datetime.timedelta) -> float:
    return max(time.total_seconds(), 0) / 3600
