"""Groups of nodes in the embedded account, made by hand, and their sizes and schedules."""

from __future__ import annotations

import json
from typing import Any, Final

from deployment import nodes
from deployment.place import Place
from rehearsal.aws.client import Aws

ROLE: Final = "arn:aws:iam::123456789012:role/{}"


def stand(aws: Aws, place: Place, *, compile_nodes: bool = True) -> None:
    """What the stacks would have made: a cluster, its groups at 0, and what names them."""
    told = {"NodeGroup": "its-nodes", "GuardGroup": f"{place.name}-guard"} | {
        "GuardRole": ROLE.format("guard")
    }
    if compile_nodes:
        told |= {"CompileNodeGroup": "its-compilers", "CompileGuardRole": ROLE.format("compiling")}
    aws.client("cloudformation").create_stack(
        StackName=f"{place.name}-trainium",
        TemplateBody=json.dumps(
            {
                "Resources": {"Topic": {"Type": "AWS::SNS::Topic"}},
                "Outputs": {name: {"Value": value} for name, value in told.items()},
            }
        ),
    )
    network = {"subnetIds": ["subnet-1", "subnet-2"]}
    aws.client("eks").create_cluster(
        name=place.name, roleArn=ROLE.format("cluster"), resourcesVpcConfig=network
    )
    for name in ("NodeGroup", "CompileNodeGroup"):
        if name in told:
            aws.client("eks").create_nodegroup(
                clusterName=place.name,
                nodegroupName=told[name],
                scalingConfig={"minSize": 0, "maxSize": 2, "desiredSize": 0},
                subnets=["subnet-1"],
                nodeRole=ROLE.format("node"),
            )
    aws.client("scheduler").create_schedule_group(Name=f"{place.name}-guard")


def schedules(aws: Aws, place: Place) -> dict[str, dict[str, Any]]:
    scheduler = aws.client("scheduler")
    listed = scheduler.list_schedules(GroupName=f"{place.name}-guard")["Schedules"]
    return {
        each["Name"]: scheduler.get_schedule(Name=each["Name"], GroupName=each["GroupName"])
        for each in listed
    }


def sizes(place: Place) -> dict[str, int]:
    return {group.kind: group.size for group in nodes.groups(place)}
