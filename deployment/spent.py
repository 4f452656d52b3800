"""What an experiment has cost so far, and what it costs an hour as it stands."""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from botocore.exceptions import ClientError

from deployment.account import in_words
from deployment.place import Place
from experiment.cost.standing import Standing, usd_per_hour, usd_per_node_hour

GROUPS: Final = {"NodeGroup": Standing.TRAINIUM, "CompileNodeGroup": Standing.COMPILE}
"""Outputs of the stack ``NAME-trainium``: the names of its node groups."""

KEPT: Final = datetime.timedelta(weeks=6)
"""How long Auto Scaling tells of its activities (API reference, DescribeScalingActivities)."""

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
    limits: tuple[str, ...]
    """What the figures leave out, a sentence each."""

    @property
    def usd(self) -> float:
        """Of all parts."""
        return sum(part.usd for part in self.parts)

    @property
    def usd_per_hour(self) -> float:
        """Of all that stands now."""
        return sum(part.usd_per_hour for part in self.parts)


def spent(place: Place, at: datetime.datetime | None = None) -> Spent:
    """What was spent until ``at``, or until now. Raises DeploymentError.

    It asks CloudFormation, EKS and Auto Scaling, so it knows neither bytes nor requests.
    """
    at = at or datetime.datetime.now(datetime.UTC)
    found = [
        part
        for part in (
            _stack(place, Standing.NETWORK, at),
            _stack(place, Standing.CLUSTER, at),
            *_groups(place, at),
        )
        if part
    ]
    begun = [part.since for part in found if part.since and part.standing not in GROUPS.values()]
    return Spent(at, min(begun, default=None), tuple(found), _limits(place, found))


def _stack(place: Place, standing: Standing, at: datetime.datetime) -> Stretch | None:
    """What stands from a stack's creation on."""
    stack = _described(place, str(standing))
    if stack is None:
        return None
    since = stack["CreationTime"]
    each = usd_per_hour(place.experiment, {standing})
    return Stretch(standing, 1, _hours(at - since), each, since)


def _groups(place: Place, at: datetime.datetime) -> Iterable[Stretch]:
    """What stood in each node group of the stack ``NAME-trainium``."""
    stack = _described(place, "trainium") or {}
    for output in stack.get("Outputs", []):
        if standing := GROUPS.get(output["OutputKey"]):
            yield _group(place, output["OutputValue"], standing, at)


def _group(place: Place, name: str, standing: Standing, at: datetime.datetime) -> Stretch:
    with in_words():
        asked = place.client("eks").describe_nodegroup(clusterName=place.name, nodegroupName=name)
        scaling = asked["nodegroup"].get("resources", {}).get("autoScalingGroups", [])
        stood: dict[str, tuple[datetime.datetime, datetime.datetime | None]] = {}
        for group in scaling:
            stood |= _stood(place.client("autoscaling"), group["name"], at)
    standing_now = [since for since, until in stood.values() if until is None]
    hours = sum(_hours((until or at) - since) for since, until in stood.values())
    each = usd_per_node_hour(place.experiment, standing)
    since = min(standing_now, default=None)
    return Stretch(standing, len(standing_now), hours, each, since)


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


def _limits(place: Place, found: Iterable[Stretch]) -> tuple[str, ...]:
    """What the figures leave out."""
    said = [
        "by list prices and capacity.price, without what is paid for by the byte or the request",
        "nodes of more than six weeks ago are not counted: Auto Scaling has forgotten them",
    ]
    if place.experiment.capacity.purchase.reserved:
        said.append("what is reserved is paid for whether its nodes stand or not")
    return tuple(said)


def _hours(time: datetime.timedelta) -> float:
    return max(time.total_seconds(), 0) / 3600


def _described(place: Place, stack: str) -> dict[str, Any] | None:
    """The experiment's stack of that name. None if the account does not have it."""
    with in_words():
        try:
            name = f"{place.name}-{stack}"
            (found,) = place.client("cloudformation").describe_stacks(StackName=name)["Stacks"]
        except ClientError as error:
            if "does not exist" in str(error):
                return None
            raise
    if found["StackStatus"] == "DELETE_COMPLETE":
        return None
    its: dict[str, Any] = found
    return its
