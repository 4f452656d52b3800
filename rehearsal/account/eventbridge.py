"""What EventBridge Scheduler does when a schedule's time has come: its target's call, as its role.

A schedule that acts once does so at once, and the others when they are told to. The universal
target, how its input is spelled and the role's session are those of the EventBridge Scheduler User
Guide ("Using universal targets", "Confused deputy prevention").
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Mapping
from typing import Any, Final

from botocore import xform_name
from botocore.model import Shape, StructureShape
from botocore.session import get_session

from rehearsal.account.permissions import may, may_be_assumed
from rehearsal.aws.client import Aws
from rehearsal.errors import RehearsalError

_TARGET: Final = re.compile(r"arn:aws:scheduler:::aws-sdk:(\w+):([a-z]\w*)")
_SERVICE: Final = "scheduler.amazonaws.com"
_POLL_SECONDS: Final = 0.5


class OneTimeSchedules:
    """Those of the account. Within ``with`` each acts once."""

    def __init__(self, aws: Aws) -> None:
        self._aws = aws
        self._acted: set[tuple[str, str, str]] = set()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._failure: Exception | None = None

    def __enter__(self) -> OneTimeSchedules:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        self.check()

    def check(self) -> None:
        """Raises what has kept a schedule from acting, if anything has."""
        if self._failure is not None:
            raise self._failure

    def _work(self) -> None:
        try:
            while not self._over.wait(_POLL_SECONDS):
                self._act()
        except Exception as failure:
            self._failure = failure

    def _act(self) -> None:
        scheduler = self._aws.client("scheduler")
        for each in scheduler.list_schedules()["Schedules"]:
            group, name = each["GroupName"], each["Name"]
            expression = scheduler.get_schedule(GroupName=group, Name=name)["ScheduleExpression"]
            key = (group, name, expression)
            if expression.startswith("at(") and key not in self._acted:
                self._acted.add(key)
                carry_out(self._aws, group, name)


def carry_out(aws: Aws, group: str, name: str) -> tuple[str, dict[str, Any]]:
    """Does what the schedule says; returns the action and its parameters, as boto3 spells them.

    Raises RehearsalError if AWS would refuse.
    """
    scheduler = aws.client("scheduler")
    schedule = scheduler.get_schedule(GroupName=group, Name=name)
    target = schedule["Target"]
    service, operation = _asked(target["Arn"])
    model = get_session().get_service_model(service).operation_model(operation)
    parameters = _spelled(json.loads(target["Input"]), model.input_shape)
    action = f"{service}:{operation}"
    _assume(aws, group, target["RoleArn"])
    resource, tags = _resource(aws, action, parameters)
    if not may(aws, target["RoleArn"], action, resource, tags):
        raise RehearsalError(f"{target['RoleArn']} may not {action} on {resource}")
    getattr(aws.client(service), xform_name(operation))(**parameters)
    return action, parameters


def _asked(arn: str) -> tuple[str, str]:
    """Service and operation of a universal target."""
    found = _TARGET.fullmatch(arn)
    if found is None:
        raise RehearsalError(f"{arn} is no universal target")
    return found[1], found[2][0].upper() + found[2][1:]


def _spelled(told: Any, shape: Shape | None) -> Any:
    """The input's names begin with a capital, whatever the API's do, and no others are taken."""
    if not isinstance(shape, StructureShape):
        return told
    names = {member[0].upper() + member[1:]: member for member in shape.members}
    if unknown := told.keys() - names.keys():
        raise RehearsalError(f"{shape.name} has no {', '.join(sorted(unknown))}")
    if missing := {*shape.required_members} - {names[name] for name in told}:
        raise RehearsalError(f"{shape.name} needs {', '.join(sorted(missing))}")
    return {
        names[name]: _spelled(value, shape.members[names[name]]) for name, value in told.items()
    }


def _assume(aws: Aws, group: str, role: str) -> None:
    source = f"arn:aws:scheduler:{aws.region}:{aws.account}:schedule-group/{group}"
    context = {"aws:SourceAccount": aws.account, "aws:SourceArn": source}
    if not may_be_assumed(aws, role, _SERVICE, context):
        raise RehearsalError(f"{role} may not be assumed by {_SERVICE} for {source}")


def _resource(
    aws: Aws, action: str, parameters: Mapping[str, Any]
) -> tuple[str, Mapping[str, str]]:
    """What the action is authorised on, and its tags (Service Authorization Reference, EKS)."""
    if action != "eks:UpdateNodegroupConfig":
        raise RehearsalError(f"not known here what {action} is authorised on")
    found = aws.client("eks").describe_nodegroup(
        clusterName=parameters["clusterName"], nodegroupName=parameters["nodegroupName"]
    )
    return found["nodegroup"]["nodegroupArn"], found["nodegroup"]["tags"]
