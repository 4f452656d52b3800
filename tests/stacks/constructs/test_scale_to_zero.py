"""What may scale nodes to 0."""

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
    """A group that a stopper ends, and the driver."""
    stack, cluster = imported()
    first = neuron_nodes(stack, cluster, "First")
    NeuronDraDriver(stack, "Driver", cluster=cluster, nodes=first)
    ScaleToZero(
        stack,
        "Ending",
        cluster_name=cluster.cluster_name,
        nodes=first.nodes,
        state_machine_name="their-stop",
    )
    return dict(Template.from_stack(stack).to_json()["Resources"])


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
    assert '\\"MinSize\\":0,\\"DesiredSize\\":0,\\"MaxSize\\":1' in definition
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
