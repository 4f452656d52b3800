"""The two node groups that run only while they are needed, and what resizes them."""

import datetime
import itertools
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from charts.names import COMPILE_NODES, TRAINIUM_NODES
from operations.account import Deployment, DeploymentError, ask

STACK: Final = "trainium"
"""The stack that has both groups, and the stopper."""

_BUSY_SECONDS: Final = 10
_BUSY_TRIES: Final = 30
"""EKS refuses to change a group while it still carries out another change of it."""
_UPDATE_SECONDS: Final = 5
_UPDATE_TRIES: Final = 120
"""EKS answers before it has carried out a change."""
_SOON_SECONDS: Final = 0.5
"""Before the first look."""
_NOTHING_TO_DO: Final = frozenset({"InvalidParameterException", "InvalidRequestException"})
"""Answers of EKS if the group has the size already (docs/assumptions.md)."""
_STOPPER_CARRIED_OUT: Final = datetime.timedelta(minutes=5)
"""For how long EKS may not have carried out what the stopper asked it for."""
_SIZE_TRIES: Final = 60
"""How often a size of 0 is looked for: a guard takes up to four minutes."""
_DEFEATING: Final = frozenset({"Launch", "ScheduledActions", "Terminate"})
"""Processes of Auto Scaling without which no scheduled action ends nodes (Auto Scaling User Guide,
"Suspend and resume processes")."""


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
        """The stack's output that names the group."""
        return {Kind.TRAINIUM: "NodeGroup", Kind.COMPILE: "CompileNodeGroup"}[self]


@dataclass(frozen=True)
class Group:
    """A managed node group as EKS describes it, with the sizes of its Auto Scaling group.

    EKS follows these late, if somebody else changes them.
    """

    deployment: Deployment
    kind: Kind
    name: str
    status: str
    issues: tuple[str, ...]
    """Health issues that EKS reports, such as capacity that cannot be had."""
    scaling_groups: tuple[str, ...]
    """Names of its Auto Scaling groups."""
    size: int
    """How many nodes it is to have."""
    in_service: frozenset[str]
    """Instances that run, whether or not they have joined the cluster."""
    obstacles: tuple[str, ...]
    """Why a scheduled action would not end its nodes."""


def find(deployment: Deployment, kind: Kind) -> Group | None:
    """The group; None if the experiment has none or its stack is not there yet."""
    name = deployment.outputs(STACK).get(kind.output)
    if name is None:
        return None
    describe = deployment.client("eks").describe_nodegroup
    answer = ask(describe, clusterName=deployment.cluster_name, nodegroupName=name)
    if answer is None:
        return None
    described: dict[str, Any] = answer["nodegroup"]
    resources = described.get("resources") or {}
    names = tuple(each["name"] for each in resources.get("autoScalingGroups", []))
    scaling: list[dict[str, Any]] = []
    if names:  # without names, all of the account's
        describe = deployment.client("autoscaling").describe_auto_scaling_groups
        scaling = describe(AutoScalingGroupNames=names)["AutoScalingGroups"]
    return Group(
        deployment=deployment,
        kind=kind,
        name=name,
        status=described["status"],
        issues=tuple(
            f"{issue.get('code')}: {issue.get('message')}"
            for issue in (described.get("health") or {}).get("issues", [])
        ),
        scaling_groups=names,
        size=sum(each["DesiredCapacity"] for each in scaling),
        in_service=frozenset(
            instance["InstanceId"]
            for each in scaling
            for instance in each["Instances"]
            if instance.get("LifecycleState") == "InService"
        ),
        obstacles=tuple(itertools.chain.from_iterable(map(_obstacles, scaling))),
    )


def groups(deployment: Deployment) -> list[Group]:
    """The groups that exist."""
    return [group for kind in Kind if (group := find(deployment, kind))]


def resize(group: Group, size: int, before: Callable[[], object] = lambda: None) -> None:
    """Asks EKS for so many nodes and no more, and returns once EKS has carried that out.

    ``before`` is called before each attempt. Above 0 only ``guard.start`` may: no node stands
    unguarded.
    """
    try:
        update = _accepted(group, size, before)
    except DeploymentError as error:
        if error.code not in _NOTHING_TO_DO:
            raise
        # Or what EKS refuses is done without it, by the guard.
        if not (group.size == size if size else has_ended(group.deployment, group.kind)):
            raise
        return
    for attempt in range(_UPDATE_TRIES):
        if update["status"] != "InProgress":
            break
        sleep(_UPDATE_SECONDS if attempt else _SOON_SECONDS)
        update = group.deployment.client("eks").describe_update(
            name=group.deployment.cluster_name, nodegroupName=group.name, updateId=update["id"]
        )["update"]
    if update["status"] != "Successful":
        reasons = [f": {error.get('errorMessage')}" for error in update.get("errors", [])]
        raise DeploymentError(
            f"EKS was asked for {size} {group.kind} nodes, and its update {update['id']} of node "
            f"group {group.name} is {update['status']}{''.join(reasons)}"
        )


def has_ended(deployment: Deployment, kind: Kind) -> bool:
    """Waits, up to five minutes, until a group is to have no nodes; whether it is."""
    group = find(deployment, kind)
    for _ in range(_SIZE_TRIES):
        if group is None or not group.size:
            break
        sleep(_UPDATE_SECONDS)
        group = find(deployment, kind)
    return group is not None and not group.size


def _accepted(group: Group, size: int, before: Callable[[], object]) -> Mapping[str, Any]:
    eks, cluster = group.deployment.client("eks"), group.deployment.cluster_name
    # EKS takes no maxSize of 0.
    scaling = {"desiredSize": size} | ({"maxSize": size} if size else {"minSize": 0})
    for tries_left in itertools.count(_BUSY_TRIES - 1, -1):
        before()
        try:
            update: Mapping[str, Any] = eks.update_nodegroup_config(
                clusterName=cluster, nodegroupName=group.name, scalingConfig=scaling
            )["update"]
            break
        except DeploymentError as error:
            if not tries_left or error.code != "ResourceInUseException":
                raise
            sleep(_BUSY_SECONDS)
    return update


def failures(group: Group) -> list[str]:
    """Why the group's newest attempts at an instance failed, in the words of Auto Scaling.

    Empty if the newest has not. EKS tells of an issue until an attempt succeeds, so also when its
    cause is gone.
    """
    messages = []
    scaling = group.deployment.client("autoscaling")
    for name in group.scaling_groups:
        answer = scaling.describe_scaling_activities(AutoScalingGroupName=name, MaxRecords=5)
        for activity in answer["Activities"]:  # newest first
            if activity["StatusCode"] not in ("Failed", "Cancelled"):
                break
            messages.append(activity.get("StatusMessage") or activity["StatusCode"])
    return [*dict.fromkeys(messages)]


def _obstacles(scaling: Mapping[str, Any]) -> Iterator[str]:
    name = f"Auto Scaling group {scaling['AutoScalingGroupName']}"
    processes = {each["ProcessName"] for each in scaling.get("SuspendedProcesses", [])}
    if suspended := sorted(processes & _DEFEATING):
        yield f"{name} has suspended {' and '.join(suspended)}: resume them"
    if operator := scaling.get("Operator"):
        yield f"{name} takes changes from {operator['Principal']} alone"
    instances = [i["InstanceId"] for i in scaling["Instances"] if i.get("ProtectedFromScaleIn")]
    if scaling.get("NewInstancesProtectedFromScaleIn"):
        instances.append("new instances")
    if instances:
        yield f"{name} protects {', '.join(instances)} from scale-in: end that"


def has_stopper_just_ended(deployment: Deployment) -> bool:
    """Whether the stopper has asked for 0 so lately that EKS may not have carried it out."""
    since = now() - _STOPPER_CARRIED_OUT
    return any(each["stopDate"] >= since for each in _executions(deployment, "SUCCEEDED"))


def cancel_stopper(deployment: Deployment) -> None:
    """Spares the nodes that are started now."""
    for execution in _executions(deployment, "RUNNING"):
        deployment.client("stepfunctions").stop_execution(
            executionArn=execution["executionArn"], cause="nodes were started for another run"
        )


def _executions(deployment: Deployment, status: str) -> list[dict[str, Any]]:
    machine = deployment.outputs(STACK).get("Stopper")
    if machine is None:
        return []
    executions: list[dict[str, Any]] = deployment.client("stepfunctions").list_executions(
        stateMachineArn=machine, statusFilter=status, maxResults=10
    )["executions"]
    return executions
