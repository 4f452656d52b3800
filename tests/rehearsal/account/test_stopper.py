"""The stopper: a state machine that runs, and whose role may do one thing."""

from __future__ import annotations

import time

from deployment import guard, nodes
from deployment.account import Deployment
from deployment.nodes import Kind
from deployment.stages.nodes import Start
from deployment.stages.stage import Context
from rehearsal.account.permissions import may, may_be_assumed
from rehearsal.aws.client import Aws

SECONDS = 60.0


def started(account: Aws, place: Deployment) -> str:
    """An execution, as the end of a run starts it."""
    machine = place.outputs("trainium")["Stopper"]
    begun = account.client("stepfunctions").start_execution(stateMachineArn=machine)
    return str(begun["executionArn"])


def ended(account: Aws, execution: str) -> str:
    """How it ended, once it has."""
    machines, deadline = account.client("stepfunctions"), time.monotonic() + SECONDS
    while (status := machines.describe_execution(executionArn=execution)["status"]) == "RUNNING":
        assert time.monotonic() < deadline, "the execution does not end"
        time.sleep(0.1)
    return str(status)


def size(place: Deployment) -> int:
    """Of the group of Trainium nodes."""
    group = nodes.find(place, Kind.TRAINIUM)
    assert group is not None
    return group.size


def test_its_execution_scales_the_trainium_nodes_to_0(account: Aws, place: Deployment) -> None:
    guard.start(place, Kind.TRAINIUM, 1)
    assert ended(account, started(account, place)) == "SUCCEEDED"
    assert size(place) == 0


def test_nodes_that_are_started_after_a_run_stay(account: Aws, place: Deployment) -> None:
    """Though the stopper that its end has started would act only then."""
    guard.start(place, Kind.TRAINIUM, 1)
    execution = started(account, place)
    guard.stop(place, Kind.TRAINIUM)
    guard.start(place, Kind.TRAINIUM, 1)
    assert ended(account, execution) == "ABORTED"
    assert size(place) == 1
    guard.stop(place, Kind.TRAINIUM)


def test_nodes_that_are_about_to_be_ended_are_not_there(account: Aws, place: Deployment) -> None:
    guard.start(place, Kind.TRAINIUM, 1)
    execution = started(account, place)
    assert Start(Context(place)).existing() is None
    ended(account, execution)


def test_its_role_may_scale_the_trainium_nodes(account: Aws, place: Deployment) -> None:
    machine = place.outputs("trainium")["Stopper"]
    found = account.client("stepfunctions").describe_state_machine(stateMachineArn=machine)
    role, groups = found["roleArn"], {}
    for kind in Kind:
        name = place.outputs("trainium")[kind.output]
        described = account.client("eks").describe_nodegroup(
            clusterName=place.name, nodegroupName=name
        )
        groups[kind] = described["nodegroup"]["nodegroupArn"]
    action = "eks:UpdateNodegroupConfig"
    assert may(account, role, action, groups[Kind.TRAINIUM])
    assert not may(account, role, action, groups[Kind.COMPILE])
    assert not may(account, role, "eks:DeleteNodegroup", groups[Kind.TRAINIUM])
    source = {"aws:SourceAccount": place.account, "aws:SourceArn": machine}
    assert may_be_assumed(account, role, "states.amazonaws.com", source)
    elsewhere = source | {"aws:SourceArn": machine.replace("article-stop", "other")}
    assert not may_be_assumed(account, role, "states.amazonaws.com", elsewhere)
