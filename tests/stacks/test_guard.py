"""What scales nodes to 0: the guard's group and roles, the stopper, and who may start it."""

import json
from typing import Any

import pytest

from charts.names import NODE_GROUP_LABEL, stopper_arn
from tests.stacks.templates import listed, outputs, statements
from tests.synthesis import ACCOUNT, Synthesised

ROLES = {"GuardRole": "trainium", "CompileGuardRole": "compile"}
"""Each guard's role, by the output that names it, and the node group that it may scale."""


@pytest.mark.parametrize("output", ROLES)
def test_a_guard_may_change_the_size_of_its_group_and_nothing_else(
    synthesised: Synthesised, output: str
) -> None:
    role, _ = outputs(synthesised, "trainium")[output]["Fn::GetAtt"]
    (statement,) = _policy(synthesised, role)
    assert statement["Effect"] == "Allow"
    assert listed(statement["Action"]) == ["eks:UpdateNodegroupConfig"]
    assert json.dumps(statement["Resource"]).rstrip('"]}').endswith(":nodegroup/article/*")
    assert statement["Condition"] == {"StringEquals": {"aws:ResourceTag/Guarded": ROLES[output]}}
    tagged = [
        resource["Properties"]["Labels"]
        for _, resource in synthesised.resources("AWS::EKS::Nodegroup")
        if resource["Properties"].get("Tags", {}).get("Guarded") == ROLES[output]
    ]
    assert tagged == [{NODE_GROUP_LABEL: ROLES[output]}]
    # Only schedules of the guard's group take the role.
    group = outputs(synthesised, "trainium")["GuardGroup"]["Ref"]
    assert _trust(synthesised, role) == {
        "Action": "sts:AssumeRole",
        "Effect": "Allow",
        "Principal": {"Service": "scheduler.amazonaws.com"},
        "Condition": {
            "StringEquals": {
                "aws:SourceAccount": {"Ref": "AWS::AccountId"},
                "aws:SourceArn": {"Fn::GetAtt": [group, "Arn"]},
            }
        },
    }


def test_what_guards_nodes_is_made_before_them_and_deleted_after(synthesised: Synthesised) -> None:
    """A deletion that fails half-way leaves no node without its guard."""
    resources = _resources(synthesised)
    guards = {n: r["Type"] for n, r in resources.items() if n.startswith("ScaleToZeroGuard")}
    policies_and_roles = [*["AWS::IAM::Policy"] * 2, *["AWS::IAM::Role"] * 2]
    assert sorted(guards.values()) == [*policies_and_roles, "AWS::Scheduler::ScheduleGroup"]
    groups = [r for r in resources.values() if r["Type"] == "AWS::EKS::Nodegroup"]
    assert len(groups) == 2
    for group in groups:
        assert guards.keys() <= {*group["DependsOn"]}


def test_the_stopper_may_change_one_size_and_nothing_else(synthesised: Synthesised) -> None:
    machine = _machine(synthesised)
    role, _ = machine["RoleArn"]["Fn::GetAtt"]
    (statement,) = _policy(synthesised, role)
    assert listed(statement["Action"]) == ["eks:UpdateNodegroupConfig"]
    assert statement["Resource"]["Fn::GetAtt"][0].startswith("TrainiumNodes")
    trust = _trust(synthesised, role)
    assert trust["Principal"] == {"Service": "states.amazonaws.com"}
    source = json.dumps(trust["Condition"]["StringEquals"]["aws:SourceArn"])
    assert source.endswith(f':stateMachine:{machine["StateMachineName"]}"]]}}')


def test_what_measures_may_start_the_stopper_where_it_is_told_to(each: Synthesised) -> None:
    allowed = {
        consumer: listed(statement["Resource"])
        for consumer, statement in statements(each)
        if statement.get("Sid") == "StopNodes"
    }
    assert each.experiment.capacity.stops_after_run
    ((consumer, (resource,)),) = allowed.items()
    assert consumer == ("Sweep" if each.experiment.sweep else "Benchmark")
    name = f"stateMachine:{each.experiment.name}-stop"
    assert json.dumps(resource).rstrip('"]}').endswith(name)
    assert f"stateMachine:{_machine(each)['StateMachineName']}" == name
    (config,) = (
        json.loads(config_map["data"]["config.json"])
        for config_map in each.objects("ConfigMap")
        if "config.json" in config_map["data"]
    )
    assert config["stopper"] == stopper_arn(each.experiment, ACCOUNT)
    assert config["stopper"].endswith(name)


def _machine(synthesised: Synthesised) -> dict[str, Any]:
    ((_, machine),) = synthesised.resources("AWS::StepFunctions::StateMachine")
    return dict(machine["Properties"])


def _resources(synthesised: Synthesised) -> dict[str, Any]:
    return dict(synthesised.template("trainium")["Resources"])


def _policy(synthesised: Synthesised, role: str) -> list[dict[str, Any]]:
    """All statements of a role."""
    assert "ManagedPolicyArns" not in _resources(synthesised)[role]["Properties"]
    return [
        statement
        for resource in _resources(synthesised).values()
        if resource["Type"] == "AWS::IAM::Policy"
        and {"Ref": role} in resource["Properties"]["Roles"]
        for statement in resource["Properties"]["PolicyDocument"]["Statement"]
    ]


def _trust(synthesised: Synthesised, role: str) -> dict[str, Any]:
    document = _resources(synthesised)[role]["Properties"]["AssumeRolePolicyDocument"]
    (statement,) = document["Statement"]
    return dict(statement)
