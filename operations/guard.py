"""The guard: a schedule that scales a group to 0, whatever becomes of whoever started its nodes.

It is a scheduled action of the group's own Auto Scaling group: it needs no role, and it acts
whatever state EKS has the node group in. From its time on it acts every ten minutes, for as long as
the group exists. So it also ends what an update of the group or an autoscaler has started since,
and with a largest size of 0 it lets neither start more (docs/decisions/0027).

A guard is made before nodes are asked for, and no command deletes one: another terminal may be
starting nodes under it. A stop brings the guard forward before it asks EKS itself, so the guard
goes on even if EKS refuses, or the stop is interrupted.
"""

import datetime
from typing import Any, Final

from experiment.cost import compile_guard_hours, guard_hours
from operations import nodes
from operations.account import Deployment, DeploymentError
from operations.nodes import STACK, Group, Kind

INTERVAL: Final = datetime.timedelta(minutes=10)
"""From one time that it acts to the next. Auto Scaling tells the next one alone, so a guard with
less than that left may have begun."""
_EVERY_INTERVAL: Final = "5-55/10 * * * *"
"""Not at full tens: EKS ends the nodes of a Capacity Block at one, by an action of its own."""
_COUNTED: Final = "5-59/10 * * * *"
"""Times of a guard that counts from the group's first node: later ones do not move it. A
scheduled action has no description that could say so."""
_NOTHING: Final = {"MinSize": 0, "MaxSize": 0, "DesiredCapacity": 0}
_NAME: Final = "guard"
_SOON: Final = datetime.timedelta(minutes=2)
"""Auto Scaling refuses a time in the past, and this machine's clock may be late."""
_MINUTE: Final = datetime.timedelta(minutes=1)
_LATE: Final = datetime.timedelta(minutes=2)
"""How late a scheduled action may be carried out (Auto Scaling User Guide, "Scheduled scaling")."""
_NO_NODES: Final = frozenset({"CREATING", "CREATE_FAILED", "DELETING"})
"""Groups that EKS does not change, and that have or get no nodes: the stack makes them without."""


def start(deployment: Deployment, kind: Kind, size: int) -> datetime.datetime:
    """Gives the group at least ``size`` nodes, guarded; returns when the guard acts.

    Nodes that stand, or are awaited, keep the date of their guard. Raises DeploymentError, also if
    the guard could not end them, if they are being ended, or if another terminal stops them
    meanwhile.
    """
    group = _at_rest(deployment, kind)
    if group.obstacles:
        raise DeploymentError(f"the {kind} nodes would be unguarded: {'; '.join(group.obstacles)}")
    if kind is Kind.TRAINIUM:
        nodes.cancel_stopper(deployment)
    # A guard that has fired by now is not missing, and must not get a later date.
    if not group.size or _action(group) is None:
        _await_late(group)
        _write(group, nodes.now() + _limit(group))
        _still_guarded(group)
    size = max(size, group.size)
    for name in group.scaling_groups:  # whose largest size the guard had set to 0
        enlarge = deployment.client("autoscaling").update_auto_scaling_group
        enlarge(AutoScalingGroupName=name, MaxSize=size)
    # A stop brings the guard forward, also while EKS is busy.
    nodes.resize(group, size, before=lambda: _still_guarded(group))
    return _still_guarded(group)


def count_from(deployment: Deployment, kind: Kind, ready: datetime.datetime) -> None:
    """Has the guard, if there is one, count from ``ready``, when the group's first node joined.

    While capacity is awaited, the guard keeps the date of the start.
    """
    group = nodes.find(deployment, kind)
    action = _action(group)
    if group is None or action is None or _begins(action) or action["Recurrence"] == _COUNTED:
        return
    at = min(ready, nodes.now()) + _limit(group)
    _write(group, max(at, _at(action)), _COUNTED)


def stop(deployment: Deployment, kind: Kind) -> bool:
    """Scales the group to 0, whatever size it has; returns whether there was one to scale.

    It returns once that is carried out: by EKS, or where EKS refuses by the guard. Raises
    DeploymentError; then, or after Ctrl-C, the guard asks for 0 every ten minutes.
    """
    group = nodes.find(deployment, kind)
    if group is None or group.status in _NO_NODES:
        return False
    unguarded = None
    try:
        _write(group, nodes.now() + _SOON)
    except DeploymentError as error:
        unguarded = error  # EKS is to be asked all the same
    try:
        nodes.resize(group, 0)
    except DeploymentError as error:
        if unguarded:
            raise DeploymentError(
                f"{error}; nor was its guard brought forward: {unguarded}"
            ) from None
        if not nodes.has_ended(deployment, kind):
            raise
        latest = nodes.find(deployment, kind)
        if latest and latest.status == "UPDATING":
            raise  # an update that goes on may still start nodes
    return True


def close(deployment: Deployment) -> None:
    """Gives each group without nodes and guard one that acts soon: no autoscaler may start any."""
    for group in nodes.groups(deployment):
        is_there = group.status not in _NO_NODES and group.scaling_groups
        if is_there and not group.size and _action(group) is None:
            _write(group, nodes.now() + _SOON)


def find(deployment: Deployment, kind: Kind) -> datetime.datetime | None:
    """When the group's guard will begin to act; None if it has begun, or if there is none."""
    action = _action(nodes.find(deployment, kind))
    return _at(action) if action and not _begins(action) else None


def is_acting(deployment: Deployment, kind: Kind) -> bool:
    """Whether the group's guard has begun to scale it to 0."""
    action = _action(nodes.find(deployment, kind))
    return action is not None and _begins(action)


def _at_rest(deployment: Deployment, kind: Kind) -> Group:
    """The group, once it has no nodes that a stop or the guard is ending."""
    run_has_ended = kind is Kind.TRAINIUM and nodes.has_stopper_just_ended(deployment)
    if run_has_ended or is_acting(deployment, kind):
        nodes.has_ended(deployment, kind)
    group = nodes.find(deployment, kind)
    if group is None:
        raise DeploymentError(
            f"there are no {kind} nodes to start: {deployment.name}-{STACK} lacks them"
        )
    if group.size and is_acting(deployment, kind):
        raise DeploymentError(
            f"the {kind} nodes are being ended, and there are to be {group.size} still: try again "
            "when there are none"
        )
    return group


def _await_late(group: Group) -> None:
    """Waits until what a guard at rest is to do about now is done: it would end the next nodes."""
    while (action := _action(group)) and _begins(action):
        now = nodes.now()
        since_hour = datetime.timedelta(minutes=now.minute, seconds=now.second)
        times = [now - (since_hour + INTERVAL / 2) % INTERVAL, _at(action)]
        # Or soon: to change it takes some seconds.
        about_now = [at for at in times if now - _LATE <= at <= now + _LATE / 4]
        if not about_now:
            return
        nodes.sleep((max(about_now) + _LATE - now).total_seconds() + 1)


def _still_guarded(group: Group) -> datetime.datetime:
    action = _action(group)
    if action is None:
        raise DeploymentError(f"Auto Scaling has no guard of the {group.kind} nodes")
    if _begins(action):
        raise DeploymentError(f"the {group.kind} nodes were stopped while they were being started")
    return _at(action)


def _limit(group: Group) -> datetime.timedelta:
    hours = {Kind.TRAINIUM: guard_hours, Kind.COMPILE: compile_guard_hours}[group.kind]
    return datetime.timedelta(hours=hours(group.deployment.experiment))


def _at(action: dict[str, Any]) -> datetime.datetime:
    """When it acts next."""
    at: datetime.datetime = action["StartTime"]
    return at.astimezone(datetime.UTC)


def _begins(action: dict[str, Any]) -> bool:
    """Whether it has begun to act, or will within ``INTERVAL``."""
    return _at(action) <= nodes.now() + INTERVAL


def _action(group: Group | None) -> dict[str, Any] | None:
    """The guard as Auto Scaling has it: the last to act, if there are several scaling groups."""
    if group is None:
        return None
    actions: list[dict[str, Any]] = []
    describe = group.deployment.client("autoscaling").describe_scheduled_actions
    for name in group.scaling_groups:
        answer = describe(AutoScalingGroupName=name, ScheduledActionNames=[_NAME])
        if not answer["ScheduledUpdateGroupActions"]:
            return None
        actions += answer["ScheduledUpdateGroupActions"]
    return max(actions, key=_at, default=None)


def _write(group: Group, at: datetime.datetime, recurrence: str = _EVERY_INTERVAL) -> None:
    """Without a StartTime it would act within ``INTERVAL``, and its EndTime would delete it."""
    settings = {"ScheduledActionName": _NAME, "Recurrence": recurrence, **_NOTHING}
    put = group.deployment.client("autoscaling").put_scheduled_update_group_action
    for name in group.scaling_groups:
        try:
            put(AutoScalingGroupName=name, StartTime=at, **settings)
        except DeploymentError as error:
            # No two actions of a group begin at one time, and EKS has one for a Capacity Block.
            if error.code != "AlreadyExists":
                raise
            put(AutoScalingGroupName=name, StartTime=at + _MINUTE, **settings)
