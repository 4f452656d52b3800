"""The guard: a schedule that scales a group to 0, whatever becomes of whoever started its nodes.

EventBridge Scheduler calls EKS itself, under a role that may do this and nothing else: every ten
minutes for days, because EKS refuses while another change of the group goes on.

A guard is made before nodes are asked for, and no command deletes one: another terminal may be
starting nodes under it. A stop brings the guard forward before it asks EKS itself, so the guard
keeps asking even if the stop is interrupted.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Mapping
from typing import Any, Final

from deployment import clock, nodes
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

_ACTION: Final = "arn:aws:scheduler:::aws-sdk:eks:updateNodegroupConfig"
"""A universal target: the service as the AWS SDK for Java calls it, and its operation."""
_ONCE: Final = {"MaximumEventAgeInSeconds": 60, "MaximumRetryAttempts": 0}
"""A call that is tried again later could end nodes of a later start."""
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
        _write(deployment, group, clock.now() + _limit(deployment, kind))
    size = min(max(size, group.size), group.maximum)
    # A stop brings the guard forward, also while EKS is busy.
    nodes.resize(deployment, group, size, before=lambda: _still_guarded(deployment, kind))
    nodes.await_report(deployment, kind, size)
    if find(deployment, kind) is None:
        _write(deployment, group, clock.now())
    return _still_guarded(deployment, kind)


def count_from(deployment: Deployment, kind: Kind, ready: datetime.datetime) -> None:
    """Has the guard, if there is one, count from ``ready``, when the group's first node joined.

    While capacity is awaited, the guard keeps the date of the start.
    """
    schedule = _schedule(deployment, kind)
    if schedule is None or _at(schedule) <= clock.now():
        return
    if schedule.get("Description", "").endswith(_COUNTED):
        return
    if group := nodes.find(deployment, kind):
        at = min(ready, clock.now()) + _limit(deployment, kind)
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
    forward = _write(deployment, group, clock.now()) if has_guard else None
    nodes.resize(deployment, group, 0)
    schedule = _schedule(deployment, kind)
    if forward and schedule and _at(schedule) == forward:
        _write(deployment, group, clock.now(), interval=_AFTER_STOP)
    return True


def find(deployment: Deployment, kind: Kind) -> datetime.datetime | None:
    """When the group's guard will begin to act; None if it has begun, or if there is none."""
    schedule = _schedule(deployment, kind)
    at = _at(schedule) if schedule else None
    return at if at and at > clock.now() else None


def is_acting(deployment: Deployment, kind: Kind) -> bool:
    """Whether the group's guard is asking EKS for no nodes."""
    schedule = _schedule(deployment, kind)
    return schedule is not None and _at(schedule) <= clock.now()


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
    write_schedule(deployment, group, f"{group.kind}-to-zero", description, times)
    return at


def _limit(deployment: Deployment, kind: Kind) -> datetime.timedelta:
    hours = {Kind.TRAINIUM: guard_hours, Kind.COMPILE: compile_guard_hours}[kind]
    return datetime.timedelta(hours=hours(deployment.experiment))


def _at(schedule: dict[str, Any]) -> datetime.datetime:
    at: datetime.datetime = schedule["StartDate"]
    return at.astimezone(datetime.UTC)


def _schedule(deployment: Deployment, kind: Kind) -> dict[str, Any] | None:
    return find_schedule(deployment, kind, f"{kind}-to-zero")


def write_schedule(
    deployment: Deployment, group: Group, name: str, description: str, times: Mapping[str, Any]
) -> None:
    """Makes the schedule ``name``, or replaces it.

    ``times``: when it acts, and what becomes of it then, as CreateSchedule has it. Raises
    DeploymentError.
    """
    # Asked once: a destroy may take the stack away at any time.
    stack = deployment.outputs(STACK)
    call = _call(deployment, group, stack)
    schedule = {
        "Name": name,
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


def find_schedule(deployment: Deployment, kind: Kind, name: str) -> dict[str, Any] | None:
    """The schedule ``name``; None unless it is for the group that the stack has now."""
    stack = deployment.outputs(STACK)
    if GROUP_OUTPUT not in stack:
        return None
    get = deployment.client("scheduler").get_schedule
    schedule: dict[str, Any] | None = ask(get, Name=name, GroupName=stack[GROUP_OUTPUT])
    if schedule is None:
        return None
    request = json.loads(schedule["Target"]["Input"])
    return schedule if request.get("NodegroupName") == stack.get(kind.output) else None


def calls_as_now(deployment: Deployment, group: Group, schedule: Mapping[str, Any]) -> bool:
    """Whether a schedule that is made now would make the same call, under the same role."""
    target, call = schedule["Target"], _call(deployment, group, deployment.outputs(STACK))
    return all(target[key] == value for key, value in call.items())


def _call(deployment: Deployment, group: Group, stack: Mapping[str, str]) -> dict[str, str]:
    """The names in ``Input`` begin with a capital, unlike those of the REST API of EKS."""
    nothing = {"MinSize": 0, "DesiredSize": 0}
    body = {"ClusterName": deployment.name, "NodegroupName": group.name, "ScalingConfig": nothing}
    role = stack.get(_ROLES[group.kind])
    if role is None:
        raise DeploymentError(f"{deployment.name}-{STACK} has no {group.kind} nodes any more")
    return {"Arn": _ACTION, "RoleArn": role, "Input": json.dumps(body)}
