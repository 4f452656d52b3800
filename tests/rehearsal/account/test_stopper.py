"""The stopper: a state machine that runs, and whose role may do one thing."""

from __future__ import annotations

import time

from deployment import guard, nodes
from deployment.nodes import Kind
from deployment.outputs import outputs
from deployment.place import Place
from rehearsal.account.permissions import may, may_be_assumed
from rehearsal.aws.client import Aws

SECONDS = 60.0


def test_its_execution_scales_the_trainium_nodes_to_0(account: Aws, place: Place) -> None:
    guard.start(place, Kind.TRAINIUM, 1)
    machines = account.client("stepfunctions")
    told = outputs(place, "trainium")
    started = machines.start_execution(stateMachineArn=told["Stopper"])["executionArn"]
    deadline = time.monotonic() + SECONDS
    while (ended := machines.describe_execution(executionArn=started))["status"] == "RUNNING":
        assert time.monotonic() < deadline, "the execution does not end"
        time.sleep(0.1)
    assert ended["status"] == "SUCCEEDED", ended
    group = nodes.find(place, Kind.TRAINIUM)
    assert group is not None
    assert group.size == 0


def test_its_role_may_scale_the_trainium_nodes(account: Aws, place: Place) -> None:
    machine = outputs(place, "trainium")["Stopper"]
    found = account.client("stepfunctions").describe_state_machine(stateMachineArn=machine)
    role, groups = found["roleArn"], {}
    for kind in Kind:
        name = outputs(place, "trainium")[kind.output]
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
