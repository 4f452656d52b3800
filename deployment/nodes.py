"""The two node groups that run only while they are needed, and what resizes them."""

import datetime
import itertools
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from botocore.exceptions import ClientError

from charts.names import COMPILE_NODES, TRAINIUM_NODES
from deployment.account import Deployment, DeploymentError, ask, aws_errors

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
_STOPPER_REPORTED: Final = datetime.timedelta(minutes=5)
"""For how long EKS may report nodes that the stopper asked it to end."""
_REPORTED_TRIES: Final = 24
"""How often it is asked for a new size once it has: it may report the old one for a while."""


def now() -> datetime.datetime:
    """In UTC, in whole seconds, as schedules have them. Tests let days pass in no time."""
    return datetime.datetime.now(datetime.UTC).replace(microsecond=0)


def sleep(seconds: float) -> None:
    """Waits; replaced in tests, too."""
    time.sleep(seconds)


class Kind(StrEnum):
    """A group, by the label of its nodes."""

    TRAINIUM = TRAINIUM_NODES
    COMPILE = COMPILE_NODES

    @property
    def output(self) -> str:
        """Of the stack, which names the group."""
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


def find(deployment: Deployment, kind: Kind) -> Group | None:
    """The group; None if the experiment has none or its stack is not there yet."""
    name = deployment.outputs(STACK).get(kind.output)
    if name is None:
        return None
    describe = deployment.client("eks").describe_nodegroup
    answer = ask(describe, clusterName=deployment.cluster_name, nodegroupName=name)
    return _group(kind, answer["nodegroup"]) if answer else None


def groups(deployment: Deployment) -> list[Group]:
    """The groups that exist."""
    return [group for kind in Kind if (group := find(deployment, kind))]


def resize(
    deployment: Deployment, group: Group, size: int, before: Callable[[], object] = lambda: None
) -> bool:
    """Asks EKS for so many nodes, and returns once EKS has carried that out.

    It asks whatever size EKS reports, which may be an old one. ``before`` is called before each
    attempt. Above 0 only ``guard.start`` may: no node stands unguarded. Returns False if EKS made
    no update of it, because the group has that size.
    """
    with aws_errors():
        try:
            update = _accepted(deployment, group, size, before)
        except ClientError as error:
            is_refused = error.response["Error"]["Code"] in _NOTHING_TO_DO
            if is_refused and await_report(deployment, group.kind, size):
                return False
            raise
        for attempt in range(_UPDATE_TRIES):
            if update["status"] != "InProgress":
                break
            sleep(_UPDATE_SECONDS if attempt else _SOON_SECONDS)
            update = deployment.client("eks").describe_update(
                name=deployment.cluster_name, nodegroupName=group.name, updateId=update["id"]
            )["update"]
    if update["status"] != "Successful":
        reasons = [f": {error.get('errorMessage')}" for error in update.get("errors", [])]
        raise DeploymentError(
            f"EKS was asked for {size} {group.kind} nodes, and its update {update['id']} of node "
            f"group {group.name} is {update['status']}{''.join(reasons)}"
        )
    return True


def await_report(deployment: Deployment, kind: Kind, size: int) -> bool:
    """Waits, up to two minutes, until EKS reports a group's new size; whether it does."""
    group = find(deployment, kind)
    for _ in range(_REPORTED_TRIES):
        if group is None or group.size == size:
            break
        sleep(_UPDATE_SECONDS)
        group = find(deployment, kind)
    return group is not None and group.size == size


def _accepted(
    deployment: Deployment, group: Group, size: int, before: Callable[[], object]
) -> Mapping[str, Any]:
    scaling = {"desiredSize": size} | ({} if size else {"minSize": 0})
    for tries_left in itertools.count(_BUSY_TRIES - 1, -1):
        before()
        try:
            update: Mapping[str, Any] = deployment.client("eks").update_nodegroup_config(
                clusterName=deployment.cluster_name, nodegroupName=group.name, scalingConfig=scaling
            )["update"]
            break
        except ClientError as error:
            if not tries_left or error.response["Error"]["Code"] != "ResourceInUseException":
                raise
            sleep(_BUSY_SECONDS)
    return update


def failures(deployment: Deployment, group: Group) -> list[str]:
    """Why the group's newest attempts at an instance failed, in the words of Auto Scaling.

    Empty if the newest has not. EKS tells of an issue until an attempt succeeds, so also when its
    cause is gone.
    """
    messages = []
    scaling = deployment.client("autoscaling")
    for name in group.scaling_groups:
        with aws_errors():
            answer = scaling.describe_scaling_activities(AutoScalingGroupName=name, MaxRecords=5)
        for activity in answer["Activities"]:  # newest first
            if activity["StatusCode"] not in ("Failed", "Cancelled"):
                break
            messages.append(activity.get("StatusMessage") or activity["StatusCode"])
    return [*dict.fromkeys(messages)]


def _group(kind: Kind, described: Mapping[str, Any]) -> Group:
    scaling, resources = described["scalingConfig"], described.get("resources") or {}
    return Group(
        kind=kind,
        name=described["nodegroupName"],
        size=scaling["desiredSize"],
        maximum=scaling["maxSize"],
        status=described["status"],
        issues=tuple(
            f"{issue.get('code')}: {issue.get('message')}"
            for issue in (described.get("health") or {}).get("issues", [])
        ),
        scaling_groups=tuple(each["name"] for each in resources.get("autoScalingGroups", [])),
    )


def has_stopper_just_ended(deployment: Deployment) -> bool:
    """Whether the stopper has ended nodes that EKS may still report."""
    since = now() - _STOPPER_REPORTED
    return any(each["stopDate"] >= since for each in _executions(deployment, "SUCCEEDED"))


def cancel_stopper(deployment: Deployment) -> None:
    """Spares the nodes that are started now."""
    for execution in _executions(deployment, "RUNNING"):
        with aws_errors():
            deployment.client("stepfunctions").stop_execution(
                executionArn=execution["executionArn"], cause="nodes were started for another run"
            )


def _executions(deployment: Deployment, status: str) -> list[dict[str, Any]]:
    machine = deployment.outputs(STACK).get("Stopper")
    if machine is None:
        return []
    with aws_errors():
        answer = deployment.client("stepfunctions").list_executions(
            stateMachineArn=machine, statusFilter=status, maxResults=10
        )
    executions: list[dict[str, Any]] = answer["executions"]
    return executions
