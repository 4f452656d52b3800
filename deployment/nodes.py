"""The two groups of nodes that stand only while they are needed, and their sizes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from botocore.exceptions import ClientError

from charts.names import COMPILE_NODES, TRAINIUM_NODES
from deployment import clock
from deployment.account import in_words
from deployment.errors import DeploymentError
from deployment.outputs import NoStack, outputs
from deployment.place import Place

STACK: Final = "trainium"
"""The stack that has both groups, their guards and their roles."""

_BUSY_SECONDS: Final = 10
_BUSY_TRIES: Final = 30
"""EKS refuses to change a group while it still carries out another change of it."""
_UPDATE_SECONDS: Final = 5
_UPDATE_TRIES: Final = 120
"""EKS answers before it has carried out a change."""
_SOON_SECONDS: Final = 0.5
"""Before the first look."""
_NOTHING_TO_DO: Final = frozenset({"InvalidParameterException", "InvalidRequestException"})
"""What EKS may answer if the group has the size already (docs/assumptions.md)."""
_REPORTED_TRIES: Final = 24
"""How often it is asked for a new size once it has: it may report the old one for a while."""


class Kind(StrEnum):
    """A group, by the label of its nodes."""

    TRAINIUM = TRAINIUM_NODES
    COMPILE = COMPILE_NODES

    @property
    def output(self) -> str:
        """The output of the stack that names the group."""
        return {Kind.TRAINIUM: "NodeGroup", Kind.COMPILE: "CompileNodeGroup"}[self]

    @property
    def parameter(self) -> str:
        """The parameter of the stack that keeps the group's size."""
        return {Kind.TRAINIUM: "KeepTrainiumNodes", Kind.COMPILE: "KeepCompileNodes"}[self]


@dataclass(frozen=True)
class Group:
    """A managed node group, as EKS describes it."""

    kind: Kind
    name: str
    size: int
    """How many nodes it is to have."""
    maximum: int
    status: str
    issues: tuple[str, ...]
    """What EKS says is wrong with it, such as capacity that cannot be had."""
    scaling_groups: tuple[str, ...]
    """Names of its Auto Scaling groups."""


def find(place: Place, kind: Kind) -> Group | None:
    """The group; None if the experiment has none or its stack is not there yet.

    Raises DeploymentError.
    """
    try:
        name = outputs(place, STACK).get(kind.output)
    except NoStack:
        return None
    if name is None:
        return None
    with in_words():
        try:
            found = place.client("eks").describe_nodegroup(
                clusterName=place.name, nodegroupName=name
            )
        except ClientError as error:
            if error.response["Error"]["Code"] == "ResourceNotFoundException":
                return None
            raise
    return _group(kind, found["nodegroup"])


def groups(place: Place) -> list[Group]:
    """Those that are there. Raises DeploymentError."""
    return [group for kind in Kind if (group := find(place, kind))]


def resize(
    place: Place, group: Group, size: int, before: Callable[[], object] = lambda: None
) -> bool:
    """Asks EKS for so many nodes, and returns once EKS has carried that out.

    It asks whatever size EKS reports, which may be an old one. ``before`` is called before each
    attempt. Above 0 only ``guard.start`` may: no node stands unguarded. Returns False if EKS made
    no update of it, because the group has that size. Raises DeploymentError.
    """
    with in_words():
        try:
            accepted = _accepted(place, group, size, before)
        except ClientError as error:
            refused = error.response["Error"]["Code"] in _NOTHING_TO_DO
            if refused and _reports(place, group.kind, size):
                return False
            raise
        update = _carried_out(place, group, accepted)
    if update["status"] != "Successful":
        reasons = [f": {error.get('errorMessage')}" for error in update.get("errors", [])]
        raise DeploymentError(
            f"EKS was asked for {size} {group.kind} nodes, and its update {update['id']} of node "
            f"group {group.name} is {update['status']}{''.join(reasons)}"
        )
    return True


def await_report(place: Place, kind: Kind, size: int) -> None:
    """Waits, up to two minutes, until EKS reports a group's new size. Raises DeploymentError."""
    for _ in range(_REPORTED_TRIES):
        group = find(place, kind)
        if group is None or group.size == size:
            return
        clock.sleep(_UPDATE_SECONDS)


def _reports(place: Place, kind: Kind, size: int) -> bool:
    await_report(place, kind, size)
    group = find(place, kind)
    return group is not None and group.size == size


def _accepted(
    place: Place, group: Group, size: int, before: Callable[[], object]
) -> Mapping[str, Any]:
    """The update that EKS has accepted."""
    wanted = {"desiredSize": size} | ({} if size else {"minSize": 0})
    left = _BUSY_TRIES
    while True:
        before()
        try:
            answer = place.client("eks").update_nodegroup_config(
                clusterName=place.name, nodegroupName=group.name, scalingConfig=wanted
            )
        except ClientError as error:
            left -= 1
            if not left or error.response["Error"]["Code"] != "ResourceInUseException":
                raise
            clock.sleep(_BUSY_SECONDS)
        else:
            update: Mapping[str, Any] = answer["update"]
            return update


def _carried_out(place: Place, group: Group, update: Mapping[str, Any]) -> Mapping[str, Any]:
    """The same update, once it is over."""
    for attempt in range(_UPDATE_TRIES):
        if update["status"] != "InProgress":
            break
        clock.sleep(_UPDATE_SECONDS if attempt else _SOON_SECONDS)
        update = place.client("eks").describe_update(
            name=place.name, nodegroupName=group.name, updateId=update["id"]
        )["update"]
    return update


def failures(place: Place, group: Group) -> list[str]:
    """Why the group's newest attempts at an instance failed, in the words of Auto Scaling.

    Empty if the newest has not. EKS tells of an issue until an attempt succeeds, so also when its
    cause is gone. Raises DeploymentError.
    """
    return [*dict.fromkeys(_failed_activities(place, group))]


def _failed_activities(place: Place, group: Group) -> Iterator[str]:
    scaling = place.client("autoscaling")
    for name in group.scaling_groups:
        with in_words():
            found = scaling.describe_scaling_activities(AutoScalingGroupName=name, MaxRecords=5)
        for activity in found["Activities"]:  # newest first
            if activity["StatusCode"] not in ("Failed", "Cancelled"):
                break
            yield activity.get("StatusMessage") or activity["StatusCode"]


def _group(kind: Kind, found: Mapping[str, Any]) -> Group:
    scaling, resources = found["scalingConfig"], found.get("resources") or {}
    return Group(
        kind=kind,
        name=found["nodegroupName"],
        size=scaling["desiredSize"],
        maximum=scaling["maxSize"],
        status=found["status"],
        issues=tuple(
            f"{issue.get('code')}: {issue.get('message')}"
            for issue in (found.get("health") or {}).get("issues", [])
        ),
        scaling_groups=tuple(each["name"] for each in resources.get("autoScalingGroups", [])),
    )
