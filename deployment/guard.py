"""The guard: a schedule that scales a group to 0, whatever becomes of whoever started its nodes.

EventBridge Scheduler calls EKS itself, under a role that may do this and nothing else: every ten
minutes for days, because EKS refuses while another change of the group goes on.

A guard is made before nodes are asked for, and no command deletes one: another terminal may be
starting nodes under it. A stop brings the guard forward before it asks EKS itself, so the guard
keeps asking even if the stop is interrupted.

Before nodes are paid for, each guard is proved once: a schedule calls EKS under the guard's role,
for a group without nodes, and is seen in EKS's own list of updates. It stays, switched off, with
EKS's update in its description, and goes with the stack.
"""

import datetime
import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from deployment import nodes
from deployment.account import Deployment, DeploymentError, ask, aws_errors
from deployment.nodes import STACK, Group, Kind
from experiment.cost import compile_guard_hours, guard_hours

INTERVAL: Final = datetime.timedelta(minutes=10)
"""From one call to the next."""
_AFTER_STOP: Final = datetime.timedelta(hours=1)
"""The same once EKS has carried out a stop: for nodes that another terminal was about to start."""
_DAYS: Final = datetime.timedelta(days=3)
"""From the first call to the last."""
_NO_NODES: Final = frozenset({"CREATING", "CREATE_FAILED", "DELETING"})
"""Groups that EKS does not change, and that have or get no nodes: the stack makes them without."""
_COUNTED: Final = ", counted from its first node"
"""Ends the description of a guard that counts from there: later nodes do not move it."""

GROUP_OUTPUT: Final = "GuardGroup"
_TO_ZERO: Final = "to-zero"
_PROOF: Final = "proof"
"""A schedule's name is its node group's and its purpose."""

_ACTION: Final = "arn:aws:scheduler:::aws-sdk:eks:updateNodegroupConfig"
"""A universal target: the service as the AWS SDK for Java calls it, and its operation."""
_ONCE: Final = {"MaximumEventAgeInSeconds": 60, "MaximumRetryAttempts": 0}
"""A call that is tried again later could end nodes of a later start."""
_SOON: Final = datetime.timedelta(minutes=1)
_SEEN: Final = "EKS carried out "
_POLL_SECONDS: Final = 5
_PATIENCE: Final = datetime.timedelta(minutes=10)
"""Scheduler acts within a minute of the time, and EKS has up to some minutes."""
_ROLES: Final = {Kind.TRAINIUM: "GuardRole", Kind.COMPILE: "CompileGuardRole"}


def start(deployment: Deployment, kind: Kind, size: int) -> datetime.datetime:
    """Gives the group at least ``size`` nodes, guarded; returns when the guard acts.

    Nodes that stand, or are awaited, keep the date of their guard. Raises DeploymentError, also if
    the nodes are being ended, or if another terminal stops them meanwhile.
    """
    group = _at_rest(deployment, kind)
    if kind is Kind.TRAINIUM:
        nodes.cancel_stopper(deployment)
    # A guard of nodes that has begun to act by now is no missing one: it must not get a later date.
    if not group.size or _schedule(deployment, kind) is None:
        _write(deployment, group, nodes.now() + _limit(deployment, kind))
    size = min(max(size, group.size), group.maximum)
    # A stop brings the guard forward, also while EKS is busy.
    nodes.resize(deployment, group, size, before=lambda: _still_guarded(deployment, kind))
    nodes.await_report(deployment, kind, size)
    if find(deployment, kind) is None:
        _write(deployment, group, nodes.now())
    return _still_guarded(deployment, kind)


def count_from(deployment: Deployment, kind: Kind, ready: datetime.datetime) -> None:
    """Has the guard, if there is one, count from ``ready``, when the group's first node joined.

    While capacity is awaited, the guard keeps the date of the start.
    """
    schedule = _schedule(deployment, kind)
    if schedule is None or _at(schedule) <= nodes.now():
        return
    if schedule.get("Description", "").endswith(_COUNTED):
        return
    if group := nodes.find(deployment, kind):
        at = min(ready, nodes.now()) + _limit(deployment, kind)
        _write(deployment, group, max(at, _at(schedule)), is_counted=True)


def stop(deployment: Deployment, kind: Kind) -> bool:
    """Scales the group to 0, whatever size EKS reports; returns whether there was one to scale.

    It returns once EKS has carried that out. Raises DeploymentError; then, or after Ctrl-C, the
    guard asks for 0 every ten minutes, and otherwise every hour.
    """
    group = nodes.find(deployment, kind)
    if group is None or group.status in _NO_NODES:
        return False
    has_guard = group.size or _schedule(deployment, kind)
    forward = _write(deployment, group, nodes.now()) if has_guard else None
    nodes.resize(deployment, group, 0)
    schedule = _schedule(deployment, kind)
    if forward and schedule and _at(schedule) == forward:
        _write(deployment, group, nodes.now(), interval=_AFTER_STOP)
    return True


def find(deployment: Deployment, kind: Kind) -> datetime.datetime | None:
    """When the group's guard will begin to act; None if it has begun, or if there is none."""
    schedule = _schedule(deployment, kind)
    at = _at(schedule) if schedule else None
    return at if at and at > nodes.now() else None


def is_acting(deployment: Deployment, kind: Kind) -> bool:
    """Whether the group's guard is asking EKS for no nodes."""
    schedule = _schedule(deployment, kind)
    return schedule is not None and _at(schedule) <= nodes.now()


def _at_rest(deployment: Deployment, kind: Kind) -> Group:
    """The group, once EKS reports no nodes that a stop or the guard is ending."""
    run_has_ended = kind is Kind.TRAINIUM and nodes.has_stopper_just_ended(deployment)
    if run_has_ended or is_acting(deployment, kind):
        nodes.await_report(deployment, kind, 0)
    group = nodes.find(deployment, kind)
    if group is None:
        raise DeploymentError(
            f"there are no {kind} nodes to start: {deployment.name}-{STACK} lacks them"
        )
    if group.size and is_acting(deployment, kind):
        raise DeploymentError(
            f"the {kind} nodes are being ended, and EKS still reports {group.size}: try again when "
            "EKS reports 0"
        )
    return group


def _still_guarded(deployment: Deployment, kind: Kind) -> datetime.datetime:
    at = find(deployment, kind)
    if at is None:
        raise DeploymentError(f"the {kind} nodes were stopped while they were being started")
    return at


def _write(
    deployment: Deployment,
    group: Group,
    at: datetime.datetime,
    *,
    interval: datetime.timedelta = INTERVAL,
    is_counted: bool = False,
) -> datetime.datetime:
    """EventBridge Scheduler takes no start that is more than five minutes ago."""
    times = {
        "ScheduleExpression": f"rate({interval.seconds // 60} minutes)",
        "StartDate": at,
        "EndDate": at + _DAYS,
        "ActionAfterCompletion": "DELETE",
    }
    description = f"Scales the {group.kind} nodes of experiment {deployment.name} to 0"
    description += _COUNTED if is_counted else ""
    _write_schedule(deployment, group, _TO_ZERO, description, times)
    return at


def _limit(deployment: Deployment, kind: Kind) -> datetime.timedelta:
    hours = {Kind.TRAINIUM: guard_hours, Kind.COMPILE: compile_guard_hours}[kind]
    return datetime.timedelta(hours=hours(deployment.experiment))


def _at(schedule: dict[str, Any]) -> datetime.datetime:
    at: datetime.datetime = schedule["StartDate"]
    return at.astimezone(datetime.UTC)


def _schedule(deployment: Deployment, kind: Kind) -> dict[str, Any] | None:
    return _find_schedule(deployment, kind, _TO_ZERO)


def _write_schedule(
    deployment: Deployment, group: Group, purpose: str, description: str, times: Mapping[str, Any]
) -> None:
    """Makes the group's schedule, or replaces it; ``times`` as CreateSchedule has them.

    It has the group's name: a deploy may replace a group, and the old one's guard must stay.
    """
    # Asked once: a destroy may take the stack away at any time.
    stack = deployment.outputs(STACK)
    call = _call(deployment, group, stack)
    schedule = {
        "Name": f"{group.name}-{purpose}",
        "GroupName": stack[GROUP_OUTPUT],
        "Description": description,
        "FlexibleTimeWindow": {"Mode": "OFF"},
        "Target": {**call, "RetryPolicy": _ONCE},
        **times,
    }
    scheduler = deployment.client("scheduler")
    if ask(scheduler.update_schedule, **schedule) is None:
        with aws_errors():
            scheduler.create_schedule(**schedule)


def _find_schedule(deployment: Deployment, kind: Kind, purpose: str) -> dict[str, Any] | None:
    """The schedule for the group that the stack has now."""
    stack = deployment.outputs(STACK)
    if GROUP_OUTPUT not in stack or kind.output not in stack:
        return None
    get = deployment.client("scheduler").get_schedule
    name = f"{stack[kind.output]}-{purpose}"
    schedule: dict[str, Any] | None = ask(get, Name=name, GroupName=stack[GROUP_OUTPUT])
    return schedule


def _call(deployment: Deployment, group: Group, stack: Mapping[str, str]) -> dict[str, str]:
    """The names in ``Input`` begin with a capital, unlike those of the REST API of EKS."""
    nothing = {"MinSize": 0, "DesiredSize": 0}
    body = {
        "ClusterName": deployment.cluster_name,
        "NodegroupName": group.name,
        "ScalingConfig": nothing,
    }
    role = stack.get(_ROLES[group.kind])
    if role is None:
        raise DeploymentError(f"{deployment.name}-{STACK} has no {group.kind} nodes any more")
    return {"Arn": _ACTION, "RoleArn": role, "Input": json.dumps(body)}


def is_proved(deployment: Deployment, group: Group) -> bool:
    """Whether EKS has carried out, for this group, the call that a schedule would make now."""
    schedule = _find_schedule(deployment, group.kind, _PROOF)
    if schedule is None or not schedule.get("Description", "").startswith(_SEEN):
        return False
    call = _call(deployment, group, deployment.outputs(STACK))
    return all(schedule["Target"][key] == value for key, value in call.items())


def prove(
    deployment: Deployment, groups: Iterable[Group], waits: Callable[[str], None]
) -> list[Group]:
    """Has a schedule act for each, and returns once EKS has carried all out. They have no nodes.

    ``waits`` is told what is awaited. Returns those that were proved: nothing can be seen of one
    for which EKS makes no update, because it has no nodes already. Raises DeploymentError.
    """
    proved = [group for group in groups if nodes.resize(deployment, group, 0)]
    before = {group: _updates(deployment, group) for group in proved}
    at = nodes.now() + _SOON
    for group in before:
        description = f"Proves that the guard of the {group.kind} nodes acts"
        _write_proof(deployment, group, at, description, "ENABLED")
    while before:
        if nodes.now() > at + _PATIENCE:
            names = " and ".join(f"{group.kind} nodes" for group in before)
            raise DeploymentError(
                f"the guard of the {names} does not act: {_PATIENCE.seconds // 60} minutes after "
                "its schedule should have called EKS, EKS has no update from it. No node is "
                "started without a guard. TargetErrorCount of the schedule group "
                f"{deployment.name}-guard in CloudWatch says whether it was refused, and "
                "UpdateNodegroupConfig in CloudTrail says why"
            )
        waits(f"its schedule calls EKS at {at:%H:%M:%S} UTC; EKS has no update from it yet")
        nodes.sleep(_POLL_SECONDS)
        for group, earlier in list(before.items()):
            if update := _carried_out(deployment, group, _updates(deployment, group) - earlier):
                # Switched off, it never acts; but Scheduler may refuse a time that has passed.
                soon = nodes.now() + _SOON
                _write_proof(deployment, group, soon, f"{_SEEN}{update}", "DISABLED")
                del before[group]
    return proved


def _write_proof(
    deployment: Deployment, group: Group, at: datetime.datetime, description: str, state: str
) -> None:
    times = {
        "ScheduleExpression": f"at({at:%Y-%m-%dT%H:%M:%S})",
        "State": state,
        "ActionAfterCompletion": "NONE",
    }
    _write_schedule(deployment, group, _PROOF, description, times)


def _updates(deployment: Deployment, group: Group) -> set[str]:
    with aws_errors():
        pages = deployment.client("eks").get_paginator("list_updates")
        listed = pages.paginate(name=deployment.cluster_name, nodegroupName=group.name)
        return {update for page in listed for update in page["updateIds"]}


def _carried_out(deployment: Deployment, group: Group, updates: Iterable[str]) -> str | None:
    """One of ``updates`` that asked for no nodes, and has succeeded."""
    for update in updates:
        with aws_errors():
            answer: Mapping[str, Any] = deployment.client("eks").describe_update(
                name=deployment.cluster_name, nodegroupName=group.name, updateId=update
            )["update"]
        params = {param["type"]: param["value"] for param in answer["params"]}
        if answer["status"] == "Successful" and params.get("DesiredSize") == "0":
            return update
    return None
