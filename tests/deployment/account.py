"""What a deploy leaves in an account, as far as commands look at it, made by hand."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from deployment.place import Place
from rehearsal.aws.client import Aws

NODES: Final = "Nodes-1234"


def stack(aws: Aws, place: Place, label: str, outputs: Mapping[str, str] | None = None) -> None:
    """A stack of the experiment with these outputs."""
    aws.client("cloudformation").create_stack(
        StackName=f"{place.name}-{label}",
        TemplateBody=json.dumps(
            {
                "Resources": {"Topic": {"Type": "AWS::SNS::Topic"}},
                "Outputs": {key: {"Value": value} for key, value in (outputs or {}).items()},
            }
        ),
        Tags=[{"Key": "Experiment", "Value": place.name}],
    )


def role(aws: Aws, name: str) -> str:
    """A role; returns its ARN."""
    made = aws.client("iam").create_role(RoleName=name, AssumeRolePolicyDocument="{}")
    return str(made["Role"]["Arn"])


def cluster(aws: Aws, place: Place) -> None:
    """The cluster and its stack."""
    aws.client("eks").create_cluster(
        name=place.name, roleArn=role(aws, f"{place.name}-cluster"), resourcesVpcConfig={}
    )
    stack(aws, place, "network")
    administrator = role(aws, f"{place.name}-administrator")
    stack(aws, place, "cluster", {"AdministratorRole": administrator})


def trainium(aws: Aws, place: Place, size: int) -> None:
    """The node group, its stack and the group of its guards."""
    group: dict[str, Any] = aws.client("eks").create_nodegroup(
        clusterName=place.name,
        nodegroupName=NODES,
        scalingConfig={"minSize": 0, "maxSize": 1, "desiredSize": size},
        subnets=["subnet-1"],
        nodeRole=role(aws, f"{place.name}-nodes"),
    )
    assert group["nodegroup"]["nodegroupName"] == NODES
    guards = f"{place.name}-guard"
    aws.client("scheduler").create_schedule_group(Name=guards)
    stack(
        aws,
        place,
        "trainium",
        {"NodeGroup": NODES, "GuardGroup": guards, "GuardRole": role(aws, f"{place.name}-guard")},
    )


def start(aws: Aws, place: Place) -> None:
    """One Trainium node, by hand: with no guard."""
    aws.client("eks").update_nodegroup_config(
        clusterName=place.name, nodegroupName=NODES, scalingConfig={"desiredSize": 1}
    )


def everything(aws: Aws, place: Place) -> str:
    """What commands could have changed."""
    eks, scheduler = aws.client("eks"), aws.client("scheduler")
    group = eks.describe_nodegroup(clusterName=place.name, nodegroupName=NODES)["nodegroup"]
    schedules = scheduler.list_schedules(GroupName=f"{place.name}-guard")["Schedules"]
    stacks = aws.client("cloudformation").describe_stacks()["Stacks"]
    return str([group["scalingConfig"], schedules, [s["StackStatus"] for s in stacks]])
