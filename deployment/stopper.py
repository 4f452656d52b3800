"""The stopper, which the end of a run starts: a minute later it ends whatever nodes stand then."""

from __future__ import annotations

from deployment.account import in_words
from deployment.nodes import STACK
from deployment.outputs import NoStack, outputs
from deployment.place import Place


def is_under_way(place: Place) -> bool:
    """Whether the Trainium nodes are about to be ended. Raises DeploymentError."""
    return bool(_executions(place))


def cancel(place: Place) -> None:
    """Spares the nodes that are started now. Raises DeploymentError."""
    for execution in _executions(place):
        with in_words():
            place.client("stepfunctions").stop_execution(
                executionArn=execution, cause="nodes were started for another run"
            )


def _executions(place: Place) -> list[str]:
    """ARNs of those that run."""
    try:
        machine = outputs(place, STACK).get("Stopper")
    except NoStack:
        return []
    if machine is None:
        return []
    with in_words():
        found = place.client("stepfunctions").list_executions(
            stateMachineArn=machine, statusFilter="RUNNING"
        )
    return [each["executionArn"] for each in found["executions"]]
