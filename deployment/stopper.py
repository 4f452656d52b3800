"""The stopper, which the end of a run starts: a minute later it ends whatever nodes stand then."""

from __future__ import annotations

import datetime
from typing import Any, Final

from deployment import clock
from deployment.account import in_words
from deployment.nodes import STACK
from deployment.outputs import NoStack, outputs
from deployment.place import Place

_REPORTED: Final = datetime.timedelta(minutes=5)
"""For how long EKS may report nodes that it was asked to end."""


def is_under_way(place: Place) -> bool:
    """Whether the Trainium nodes are about to be ended. Raises DeploymentError."""
    return bool(_executions(place))


def has_just_ended(place: Place) -> bool:
    """Whether it has ended nodes that EKS may still report. Raises DeploymentError."""
    since = clock.now() - _REPORTED
    return any(each["stopDate"] >= since for each in _listed(place, "SUCCEEDED"))


def cancel(place: Place) -> None:
    """Spares the nodes that are started now. Raises DeploymentError."""
    for execution in _executions(place):
        with in_words():
            place.client("stepfunctions").stop_execution(
                executionArn=execution, cause="nodes were started for another run"
            )


def _executions(place: Place) -> list[str]:
    """ARNs of those that run."""
    return [each["executionArn"] for each in _listed(place, "RUNNING")]


def _listed(place: Place, status: str) -> list[dict[str, Any]]:
    """The newest executions of a status."""
    try:
        machine = outputs(place, STACK).get("Stopper")
    except NoStack:
        return []
    if machine is None:
        return []
    with in_words():
        found = place.client("stepfunctions").list_executions(
            stateMachineArn=machine, statusFilter=status, maxResults=10
        )
    executions: list[dict[str, Any]] = found["executions"]
    return executions
