"""Schedules that ask EKS for no nodes in one group: EventBridge Scheduler calls EKS itself."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from botocore.exceptions import ClientError

from deployment.account import Deployment, DeploymentError, aws_errors
from deployment.nodes import STACK, Group, Kind

GROUP_OUTPUT: Final = "GuardGroup"

_ACTION: Final = "arn:aws:scheduler:::aws-sdk:eks:updateNodegroupConfig"
"""A universal target: the service as the AWS SDK for Java calls it, and its operation."""
_ONCE: Final = {"MaximumEventAgeInSeconds": 60, "MaximumRetryAttempts": 0}
"""A call that is tried again later could end nodes of a later start."""
_ROLES: Final = {Kind.TRAINIUM: "GuardRole", Kind.COMPILE: "CompileGuardRole"}


def write(
    deployment: Deployment,
    group: Group,
    name: str,
    description: str,
    times: Mapping[str, Any],
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
    with aws_errors():
        try:
            scheduler.update_schedule(**schedule)
        except ClientError as error:
            if error.response["Error"]["Code"] != "ResourceNotFoundException":
                raise
            scheduler.create_schedule(**schedule)


def find(deployment: Deployment, kind: Kind, name: str) -> dict[str, Any] | None:
    """The schedule ``name``; None unless it is for the group that the stack has now.

    Raises DeploymentError.
    """
    stack = deployment.outputs(STACK)
    if GROUP_OUTPUT not in stack:
        return None
    with aws_errors():
        try:
            schedule: dict[str, Any] = deployment.client("scheduler").get_schedule(
                Name=name, GroupName=stack[GROUP_OUTPUT]
            )
        except ClientError as error:
            if error.response["Error"]["Code"] == "ResourceNotFoundException":
                return None
            raise
    asked = json.loads(schedule["Target"]["Input"])
    return schedule if asked.get("NodegroupName") == stack.get(kind.output) else None


def calls_as_now(deployment: Deployment, group: Group, schedule: Mapping[str, Any]) -> bool:
    """Whether a schedule that is made now would make the same call, under the same role."""
    target, call = schedule["Target"], _call(deployment, group, deployment.outputs(STACK))
    return all(target[key] == value for key, value in call.items())


def _call(deployment: Deployment, group: Group, stack: Mapping[str, str]) -> dict[str, str]:
    """The names in ``Input`` begin with a capital, unlike those of the REST API of EKS."""
    nothing = {"MinSize": 0, "DesiredSize": 0}
    asked = {"ClusterName": deployment.name, "NodegroupName": group.name, "ScalingConfig": nothing}
    role = stack.get(_ROLES[group.kind])
    if role is None:
        raise DeploymentError(f"{deployment.name}-{STACK} has no {group.kind} nodes any more")
    return {"Arn": _ACTION, "RoleArn": role, "Input": json.dumps(asked)}
