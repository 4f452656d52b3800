"""The guard: a schedule that scales a group to 0, whatever becomes of whoever started its nodes.

EventBridge Scheduler calls EKS itself, under a role that may do this and nothing else. It does so
several times: EKS refuses while another change of the group goes on, and which refusals Scheduler
tries again is not documented. The schedule is made before the nodes are, in a group of the trainium
stack, and goes with it.
"""

from __future__ import annotations

import datetime
import json
from dataclasses import dataclass
from typing import Any, Final

from botocore.exceptions import ClientError

from deployment import nodes, stopper
from deployment.account import in_words
from deployment.errors import DeploymentError
from deployment.nodes import STACK, Group, Kind
from deployment.outputs import NoStack, outputs
from deployment.place import Place
from experiment.estimate import guard_hours

ACTION: Final = "arn:aws:scheduler:::aws-sdk:eks:updateNodegroupConfig"
"""A universal target: the service as the AWS SDK for Java calls it, and its operation."""
GROUP_OUTPUT: Final = "GuardGroup"

_NAMES: Final = {Kind.TRAINIUM: "trainium-to-zero", Kind.COMPILE: "compile-to-zero"}
_ROLES: Final = {Kind.TRAINIUM: "GuardRole", Kind.COMPILE: "CompileGuardRole"}
_AGAIN: Final = "rate(10 minutes)"
_LASTS: Final = datetime.timedelta(hours=1)
"""From the first call to the last."""


@dataclass(frozen=True)
class Guard:
    """A schedule that has not acted yet."""

    kind: Kind
    name: str
    at: datetime.datetime
    """In UTC."""

    @property
    def hours(self) -> float:
        """From now until it acts."""
        return (self.at - _now()).total_seconds() / 3600


def start(place: Place, kind: Kind, size: int) -> Guard:
    """Gives the group at least ``size`` nodes, guarded; returns the guard.

    Nodes that stand keep their guard, because it counts from their start. Raises DeploymentError.
    """
    group = nodes.find(place, kind)
    if group is None:
        raise DeploymentError(
            f"there are no {kind} nodes to start: {place.name}-{STACK} lacks them"
        )
    if kind is Kind.TRAINIUM:
        stopper.cancel(place)
    guard = find(place, kind) if group.size else None
    guard = guard or _arm(place, group)
    if group.size < size:
        nodes.resize(place, group, min(size, group.maximum))
    return guard


def stop(place: Place, kind: Kind) -> bool:
    """Scales the group to 0, and removes its guard; returns whether there was anything to stop.

    Raises DeploymentError.
    """
    group = nodes.find(place, kind)
    if group is None:
        return False
    if group.size:
        nodes.resize(place, group, 0)
    _disarm(place, kind)
    return bool(group.size)


def find(place: Place, kind: Kind) -> Guard | None:
    """The group's guard; None if there is none, or if its time is over. Raises DeploymentError."""
    schedule = _schedule(place, kind)
    if schedule is None:
        return None
    guard = Guard(kind, schedule["Name"], schedule["StartDate"].astimezone(datetime.UTC))
    return guard if guard.at > _now() else None


def _arm(place: Place, group: Group) -> Guard:
    told = outputs(place, STACK)
    hours = datetime.timedelta(hours=_hours(place, group.kind))
    at = (_now() + hours).replace(microsecond=0)
    schedule = _definition(place, group, told[GROUP_OUTPUT], told[_ROLES[group.kind]], at)
    scheduler = place.client("scheduler")
    with in_words():
        if _schedule(place, group.kind):
            scheduler.update_schedule(**schedule)
        else:
            scheduler.create_schedule(**schedule)
    return Guard(group.kind, schedule["Name"], at)


def _hours(place: Place, kind: Kind) -> float:
    """Of a sweep, the Trainium nodes' hours may be fewer: those that its limit pays for."""
    if kind is Kind.TRAINIUM:
        return guard_hours(place.experiment)
    return place.experiment.capacity.max_hours


def _definition(
    place: Place, group: Group, schedules: str, role: str, at: datetime.datetime
) -> dict[str, Any]:
    """The names in ``Input`` begin with a capital, unlike those of the REST API of EKS."""
    nothing = {"MinSize": 0, "DesiredSize": 0}
    asked = {"ClusterName": place.name, "NodegroupName": group.name, "ScalingConfig": nothing}
    return {
        "Name": _NAMES[group.kind],
        "GroupName": schedules,
        "Description": f"Scales the {group.kind} nodes of experiment {place.name} to 0",
        "ScheduleExpression": _AGAIN,
        "StartDate": at,
        "EndDate": at + _LASTS,
        "FlexibleTimeWindow": {"Mode": "OFF"},
        "ActionAfterCompletion": "DELETE",
        "Target": {"Arn": ACTION, "RoleArn": role, "Input": json.dumps(asked)},
    }


def _disarm(place: Place, kind: Kind) -> None:
    """Removes the schedule, once the group's size is 0: the next nodes get one of their own."""
    group, schedule = nodes.find(place, kind), _schedule(place, kind)
    if schedule is None or group is None or group.size:
        return
    with in_words():
        place.client("scheduler").delete_schedule(
            Name=schedule["Name"], GroupName=schedule["GroupName"]
        )


def _schedule(place: Place, kind: Kind) -> dict[str, Any] | None:
    try:
        group = outputs(place, STACK).get(GROUP_OUTPUT)
    except NoStack:
        return None
    if group is None:
        return None
    with in_words():
        try:
            found: dict[str, Any] = place.client("scheduler").get_schedule(
                Name=_NAMES[kind], GroupName=group
            )
        except ClientError as error:
            if error.response["Error"]["Code"] == "ResourceNotFoundException":
                return None
            raise
    return found


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)
