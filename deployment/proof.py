"""The guard proved once, before nodes are paid for: its call, seen in EKS's own list of updates.

A schedule calls EKS once, under the guard's role, for a group without nodes. It stays, switched
off, with EKS's update in its description, and goes with the stack.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from deployment import clock, guard, nodes
from deployment.account import Deployment, DeploymentError, aws_errors
from deployment.nodes import Group

_SOON: Final = datetime.timedelta(minutes=1)
_SEEN: Final = "EKS carried out "
_POLL_SECONDS: Final = 5
_PATIENCE: Final = datetime.timedelta(minutes=10)
"""Scheduler acts within a minute of the time, and EKS has up to some minutes."""


class NotProved(DeploymentError):
    """EKS has no update that comes from the schedule."""


def is_proved(deployment: Deployment, group: Group) -> bool:
    """Whether EKS has carried out this call for this group."""
    schedule = guard.find_schedule(deployment, group.kind, f"{group.kind}-proof")
    return (
        schedule is not None
        and schedule.get("Description", "").startswith(_SEEN)
        and guard.calls_as_now(deployment, group, schedule)
    )


def prove(
    deployment: Deployment, groups: Iterable[Group], waits: Callable[[str], None]
) -> list[Group]:
    """Has a schedule act for each, and returns once EKS has carried all out. They have no nodes.

    ``waits`` is told what is awaited. Returns those that were proved: nothing can be seen of one
    for which EKS makes no update, because it has no nodes already. Raises NotProved, or another
    DeploymentError.
    """
    proved = [group for group in groups if nodes.resize(deployment, group, 0)]
    before = {group: _updates(deployment, group) for group in proved}
    at = clock.now() + _SOON
    for group in before:
        description = f"Proves that the guard of the {group.kind} nodes acts"
        _write(deployment, group, at, description, "ENABLED")
    while before:
        if clock.now() > at + _PATIENCE:
            names = " and ".join(f"{group.kind} nodes" for group in before)
            raise NotProved(
                f"the guard of the {names} does not act: {_PATIENCE.seconds // 60} minutes after "
                "its schedule should have called EKS, EKS has no update from it. No node is "
                "started without a guard. TargetErrorCount of the schedule group "
                f"{deployment.name}-guard in CloudWatch says whether it was refused, and "
                "UpdateNodegroupConfig in CloudTrail says why"
            )
        waits(f"its schedule calls EKS at {at:%H:%M:%S} UTC; EKS has no update from it yet")
        clock.sleep(_POLL_SECONDS)
        for group, earlier in list(before.items()):
            if update := _carried_out(deployment, group, _updates(deployment, group) - earlier):
                # Switched off, it never acts; but Scheduler may refuse a time that has passed.
                _write(deployment, group, clock.now() + _SOON, f"{_SEEN}{update}", "DISABLED")
                del before[group]
    return proved


def _write(
    deployment: Deployment, group: Group, at: datetime.datetime, description: str, state: str
) -> None:
    times = {
        "ScheduleExpression": f"at({at:%Y-%m-%dT%H:%M:%S})",
        "State": state,
        "ActionAfterCompletion": "NONE",
    }
    guard.write_schedule(deployment, group, f"{group.kind}-proof", description, times)


def _updates(deployment: Deployment, group: Group) -> set[str]:
    """Ids of all of EKS's updates of the group."""
    with aws_errors():
        pages = deployment.client("eks").get_paginator("list_updates")
        return {
            update
            for page in pages.paginate(name=deployment.name, nodegroupName=group.name)
            for update in page["updateIds"]
        }


def _carried_out(deployment: Deployment, group: Group, updates: Iterable[str]) -> str | None:
    """One of ``updates`` that asked for no nodes, and has succeeded."""
    for update in updates:
        with aws_errors():
            answer: Mapping[str, Any] = deployment.client("eks").describe_update(
                name=deployment.name, nodegroupName=group.name, updateId=update
            )["update"]
        params = {param["type"]: param["value"] for param in answer["params"]}
        if answer["status"] == "Successful" and params.get("DesiredSize") == "0":
            return update
    return None
