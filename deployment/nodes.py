"""The two groups of nodes that stand only while they are needed, and their sizes."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from botocore.exceptions import ClientError

from charts.names import COMPILE_NODES, TRAINIUM_NODES
from deployment.account import in_words
from deployment.errors import DeploymentError
from deployment.outputs import NoStack, outputs
from deployment.place import Place

STACK: Final = "trainium"
"""The stack that has both groups, their guards and their roles."""

_BUSY_SECONDS: Final = 10
_BUSY_TRIES: Final = 30
"""EKS refuses to change a group while it still carries out another change of it."""
_TOLD_SECONDS: Final = 2
_TOLD_TRIES: Final = 60
"""EKS answers before it has carried out a change. Until then it may tell of the old size."""


class Kind(StrEnum):
    """A group, by the label of its nodes."""

    TRAINIUM = TRAINIUM_NODES
    COMPILE = COMPILE_NODES

    @property
    def output(self) -> str:
        """The output of the stack that names the group."""
        return {Kind.TRAINIUM: "NodeGroup", Kind.COMPILE: "CompileNodeGroup"}[self]


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


def standing(place: Place) -> bool:
    """Whether a group is to have nodes now. Raises DeploymentError."""
    return any(group.size for group in groups(place))


def resize(place: Place, group: Group, size: int) -> None:
    """Asks EKS for so many nodes, and returns when it tells of them.

    Above 0 only ``guard.start`` may: no node stands unguarded. Raises DeploymentError.
    """
    _ask(place, group, size)
    for left in reversed(range(_TOLD_TRIES)):
        found = find(place, group.kind)
        if found is None or found.size == size:
            return
        if left:
            time.sleep(_TOLD_SECONDS)
    raise DeploymentError(
        f"EKS was asked for {size} {group.kind} nodes, and after {_TOLD_SECONDS * _TOLD_TRIES} s "
        f"still tells of another number: the update history of node group {group.name} says why"
    )


def _ask(place: Place, group: Group, size: int) -> None:
    wanted = {"desiredSize": size} | ({} if size else {"minSize": 0})
    eks = place.client("eks")
    with in_words():
        for left in reversed(range(_BUSY_TRIES)):
            try:
                eks.update_nodegroup_config(
                    clusterName=place.name, nodegroupName=group.name, scalingConfig=wanted
                )
                return
            except ClientError as error:
                if not left or error.response["Error"]["Code"] != "ResourceInUseException":
                    raise
            time.sleep(_BUSY_SECONDS)


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
