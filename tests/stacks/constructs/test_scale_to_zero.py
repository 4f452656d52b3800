"""What may scale nodes to 0, and that it is there whenever they are."""

import json
from typing import Any

import pytest
from aws_cdk.assertions import Template

from stacks.constructs.neuron_dra_driver import NeuronDraDriver
from stacks.constructs.scale_to_zero import ScaleToZero
from tests.stacks.constructs.cluster import imported, neuron_nodes
from tests.stacks.templates import listed

Resources = dict[str, dict[str, Any]]


@pytest.fixture(scope="module")
def resources() -> Resources:
    """Two groups, one of which a stopper ends, and the driver."""
    stack, cluster = imported()
    first, second = (neuron_nodes(stack, cluster, name) for name in ("First", "Second"))
    NeuronDraDriver(stack, "Driver", cluster=cluster, nodes=first)
    ScaleToZero(
        stack,
        "Ending",
        cluster_name=cluster.cluster_name,
        schedule_group_name="their-guard",
        node_groups={"first": first.nodes, "second": second.nodes},
        stopped=first.nodes,
        state_machine_name="their-stop",
    )
    return dict(Template.from_stack(stack).to_json()["Resources"])


def test_a_guard_may_change_the_size_of_its_group_and_nothing_else(resources: Resources) -> None:
    ((schedules, group),) = _of_type(resources, "AWS::Scheduler::ScheduleGroup")
    assert group["Properties"]["Name"] == "their-guard"
    for tag in ("first", "second"):
        role = _role(resources, f"EndingGuard{tag.capitalize()}")
        (statement,) = _policy(resources, role)
        assert statement["Effect"] == "Allow"
        assert listed(statement["Action"]) == ["eks:UpdateNodegroupConfig"]
        assert json.dumps(statement["Resource"]).rstrip('"]}').endswith(":nodegroup/theirs/*")
        assert statement["Condition"] == {"StringEquals": {"aws:ResourceTag/Guarded": tag}}
        ((name, _),) = (
            (name, nodes)
            for name, nodes in _of_type(resources, "AWS::EKS::Nodegroup")
            if nodes["Properties"]["Tags"] == {"Guarded": tag}
        )
        assert name.startswith(tag.capitalize())
        # Only schedules of the guard's group take the role.
        assert _trust(resources, role) == {
            "Action": "sts:AssumeRole",
            "Effect": "Allow",
            "Principal": {"Service": "scheduler.amazonaws.com"},
            "Condition": {
                "StringEquals": {
                    "aws:SourceAccount": {"Ref": "AWS::AccountId"},
                    "aws:SourceArn": {"Fn::GetAtt": [schedules, "Arn"]},
                }
            },
        }


def test_what_guards_nodes_is_made_before_them_and_deleted_after(resources: Resources) -> None:
    """A deletion that fails half-way leaves no node without its guard."""
    guards = {name: r["Type"] for name, r in resources.items() if name.startswith("EndingGuard")}
    policies_and_roles = [*["AWS::IAM::Policy"] * 2, *["AWS::IAM::Role"] * 2]
    assert sorted(guards.values()) == [*policies_and_roles, "AWS::Scheduler::ScheduleGroup"]
    groups = _of_type(resources, "AWS::EKS::Nodegroup")
    assert len(groups) == 2
    for _, group in groups:
        assert guards.keys() <= {*group["DependsOn"]}


def test_the_driver_is_removed_before_its_nodes_and_hands_devices_out_alone(
    resources: Resources,
) -> None:
    ((_, chart),) = _of_type(resources, "Custom::AWSCDK-EKS-HelmChart")
    assert any(name.startswith("FirstNodes") for name in chart["DependsOn"])
    assert chart["Properties"]["ClusterName"] == "theirs"
    values = json.loads(chart["Properties"]["Values"])
    assert (values["draDriver"], values["devicePlugin"]) == ({"enabled": True}, {"enabled": False})


def test_the_stopper_may_change_one_size_and_nothing_else(resources: Resources) -> None:
    ((_, machine),) = _of_type(resources, "AWS::StepFunctions::StateMachine")
    assert machine["Properties"]["StateMachineName"] == "their-stop"
    definition = json.dumps(machine["Properties"]["DefinitionString"])
    assert '\\"ClusterName\\":\\"theirs\\"' in definition
    role, _ = machine["Properties"]["RoleArn"]["Fn::GetAtt"]
    (statement,) = _policy(resources, role)
    assert listed(statement["Action"]) == ["eks:UpdateNodegroupConfig"]
    assert statement["Resource"]["Fn::GetAtt"][0].startswith("FirstNodes")
    trust = _trust(resources, role)
    assert trust["Principal"] == {"Service": "states.amazonaws.com"}
    source = json.dumps(trust["Condition"]["StringEquals"]["aws:SourceArn"])
    assert source.endswith(':stateMachine:their-stop"]]}')


def _of_type(resources: Resources, type_: str) -> list[tuple[str, dict[str, Any]]]:
    return [(name, resource) for name, resource in resources.items() if resource["Type"] == type_]


def _role(resources: Resources, begin: str) -> str:
    (name,) = (n for n, _ in _of_type(resources, "AWS::IAM::Role") if n.startswith(begin))
    return name


def _policy(resources: Resources, role: str) -> list[dict[str, Any]]:
    """All statements of a role."""
    assert "ManagedPolicyArns" not in resources[role]["Properties"]
    return [
        statement
        for _, policy in _of_type(resources, "AWS::IAM::Policy")
        if {"Ref": role} in policy["Properties"]["Roles"]
        for statement in policy["Properties"]["PolicyDocument"]["Statement"]
    ]


def _trust(resources: Resources, role: str) -> dict[str, Any]:
    document = resources[role]["Properties"]["AssumeRolePolicyDocument"]
    (statement,) = document["Statement"]
    return dict(statement)
