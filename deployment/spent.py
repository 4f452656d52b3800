"""What an experiment has cost so far, and what it costs an hour as it stands."""

from __future__ import annotations

import datetime
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from botocore.exceptions import ClientError

from deployment import nodes
from deployment.account import in_words
from deployment.nodes import Kind
from deployment.place import Place
from experiment.cost.block import Block
from experiment.cost.standing import Standing, usd_per_hour, usd_per_node_hour
from experiment.schema import Purchase

STANDING: Final = {Kind.TRAINIUM: Standing.TRAINIUM, Kind.COMPILE: Standing.COMPILE}

KEPT: Final = datetime.timedelta(weeks=6)
"""How long Auto Scaling tells of its activities (API reference, DescribeScalingActivities)."""

_UNPAID: Final = frozenset({"cancelled", "failed", "payment-failed", "unsupported"})
"""States of a Capacity Block that nobody has paid for."""

_INSTANCE: Final = re.compile(r"(Launching|Terminating).*?\b(i-[0-9a-f]+)")
"""A description: ``Launching a new EC2 instance: i-0123``, ``Terminating EC2 instance: i-0123``
(Auto Scaling User Guide, "Verify a scaling activity"). A launch that failed names no instance."""


@dataclass(frozen=True)
class Stretch:
    """What stood of one kind: a node group, or the stack of the network or of the cluster."""

    standing: Standing
    now: int
    """How many nodes stand; of a stack 1."""
    hours: float
    """Of all nodes added up."""
    usd_each: float
    """An hour, of one."""
    since: datetime.datetime | None
    """When the oldest of those that stand now came."""

    @property
    def usd(self) -> float:
        """Hours x the price of one."""
        return self.hours * self.usd_each

    @property
    def usd_per_hour(self) -> float:
        """Of those that stand now."""
        return self.now * self.usd_each

    @property
    def formula(self) -> str:
        """E.g. ``1.25 h x 35.82``."""
        return f"{self.hours:.2f} h x {self.usd_each:.2f}"


@dataclass(frozen=True)
class Spent:
    """Dollars by list prices and by ``capacity.price``, from the first stack's creation to now."""

    at: datetime.datetime
    since: datetime.datetime | None
    """When the first stack was made. None if none is there."""
    parts: tuple[Stretch, ...]
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
        nodes = sum(part.hours for part in self.parts if part.standing is Standing.TRAINIUM)
        paid = self.block.to_pay(self.usd, nodes)
        return f"{self.usd:.2f} USD used, {paid:.2f} USD paid with the whole Capacity Block"

    @property
    def usd_per_hour(self) -> float:
        """Of all that stands now."""
        return sum(part.usd_per_hour for part in self.parts)


def spent(place: Place, at: datetime.datetime | None = None) -> Spent:
    """What was spent until ``at``, or until now. Raises DeploymentError.

    It asks CloudFormation, EKS, Auto Scaling and EC2, so it knows neither bytes nor requests.
    """
    at = at or datetime.datetime.now(datetime.UTC)
    stacks = [
        stack
        for standing in (Standing.NETWORK, Standing.CLUSTER)
        if (stack := _stack(place, standing, at))
    ]
    groups = [_group(place, group, at) for group in nodes.groups(place)]
    since = min((stack.since for stack in stacks if stack.since), default=None)
    return Spent(at, since, (*stacks, *groups), _block(place))


def _block(place: Place) -> Block | None:
    """As EC2 describes it. None if none was bought, or EC2 describes it no more."""
    capacity = place.experiment.capacity
    if capacity.purchase is not Purchase.CAPACITY_BLOCK:
        return None
    with in_words():
        try:
            (found,) = place.client("ec2").describe_capacity_reservations(
                CapacityReservationIds=[capacity.reservation_id]
            )["CapacityReservations"]
        except ClientError as error:
            if error.response["Error"]["Code"].startswith("InvalidCapacityReservationId"):
                return None
            raise
    begin, end = found.get("StartDate"), found.get("EndDate")
    if begin is None or end is None or found["State"] in _UNPAID:
        return None
    count, price = found["TotalInstanceCount"], capacity.price.usd_per_hour
    return Block(_hours(end - begin), count, capacity.instance_type, price)


def _stack(place: Place, standing: Standing, at: datetime.datetime) -> Stretch | None:
    """What stands from a stack's creation on. None if the account does not have the stack."""
    with in_words():
        try:
            name = f"{place.name}-{standing}"
            (found,) = place.client("cloudformation").describe_stacks(StackName=name)["Stacks"]
        except ClientError as error:
            if "does not exist" in str(error):
                return None
            raise
    since = found["CreationTime"]
    each = usd_per_hour(place.experiment, {standing})
    return Stretch(standing, 1, _hours(at - since), each, since)


def _group(place: Place, group: nodes.Group, at: datetime.datetime) -> Stretch:
    """What stood in a node group."""
    stood: dict[str, tuple[datetime.datetime, datetime.datetime | None]] = {}
    with in_words():
        for name in group.scaling_groups:
            stood |= _stood(place.client("autoscaling"), name, at)
    now = [since for since, until in stood.values() if until is None]
    hours = sum(_hours((until or at) - since) for since, until in stood.values())
    standing = STANDING[group.kind]
    each = usd_per_node_hour(place.experiment, standing)
    return Stretch(standing, len(now), hours, each, min(now, default=None))


def _stood(
    autoscaling: Any, group: str, at: datetime.datetime
) -> Mapping[str, tuple[datetime.datetime, datetime.datetime | None]]:
    """When each instance of ``group`` came and went; None: it is still there.

    From the start of its launch to the end of its termination: some minutes more than EC2 bills. An
    instance whose launch is no longer told of counts from the earliest that is.
    """
    pages = autoscaling.get_paginator("describe_scaling_activities")
    came: dict[str, datetime.datetime] = {}
    went: dict[str, datetime.datetime | None] = {}
    for page in pages.paginate(AutoScalingGroupName=group):
        for activity in page["Activities"]:
            told = _INSTANCE.match(activity["Description"])
            if told is None or activity["StatusCode"] in ("Failed", "Cancelled"):
                continue
            what, instance = told.groups()
            if what == "Launching":
                came[instance] = activity["StartTime"]
            elif activity["StatusCode"] == "Successful":
                went[instance] = activity.get("EndTime", activity["StartTime"])
    described = autoscaling.describe_auto_scaling_groups(AutoScalingGroupNames=[group])
    there = {
        its["InstanceId"]: found["CreatedTime"]
        for found in described["AutoScalingGroups"]
        for its in found["Instances"]
    }
    for instance in {*there, *went} - {*came}:
        came[instance] = max(there.get(instance, at - KEPT), at - KEPT)
    return {instance: (since, went.get(instance)) for instance, since in came.items()}


def _hours(time: datetime.timedelta) -> float:
    return max(time.total_seconds(), 0) / 3600
