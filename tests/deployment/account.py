"""What a deploy leaves in an account, as far as commands look at it, made by hand."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from deployment import nodes
from deployment.account import Deployment
from rehearsal.aws.client import Aws


def stack(
    aws: Aws, deployment: Deployment, label: str, outputs: Mapping[str, str] | None = None
) -> None:
    """A stack of the experiment with these outputs."""
    aws.client("cloudformation").create_stack(
        StackName=f"{deployment.name}-{label}",
        TemplateBody=json.dumps(
            {
                "Resources": {"Topic": {"Type": "AWS::SNS::Topic"}},
                "Outputs": {key: {"Value": value} for key, value in (outputs or {}).items()},
            }
        ),
        Tags=[{"Key": "Experiment", "Value": deployment.name}],
    )


def role(aws: Aws, name: str) -> str:
    """A role; returns its ARN."""
    made = aws.client("iam").create_role(RoleName=name, AssumeRolePolicyDocument="{}")
    return str(made["Role"]["Arn"])


def cluster(aws: Aws, deployment: Deployment) -> None:
    """The cluster and its stack."""
    aws.client("eks").create_cluster(
        name=deployment.name,
        roleArn=role(aws, f"{deployment.name}-cluster"),
        resourcesVpcConfig={"subnetIds": ["subnet-1", "subnet-2"]},
    )
    administrator = role(aws, f"{deployment.name}-administrator")
    stack(aws, deployment, "cluster", {"AdministratorRole": administrator})


def groups(aws: Aws, deployment: Deployment) -> None:
    """Both groups at 0, in a cluster, with their stack and the group of their guards."""
    cluster(aws, deployment)
    guard = role(aws, f"{deployment.name}-guard")
    outputs = {
        "NodeGroup": "its-nodes",
        "CompileNodeGroup": "its-compilers",
        "GuardGroup": f"{deployment.name}-guard",
        "GuardRole": guard,
        "CompileGuardRole": guard,
    }
    stack(aws, deployment, "trainium", outputs)
    for name in ("its-nodes", "its-compilers"):
        aws.client("eks").create_nodegroup(
            clusterName=deployment.name,
            nodegroupName=name,
            scalingConfig={"minSize": 0, "maxSize": 2, "desiredSize": 0},
            subnets=["subnet-1"],
            nodeRole=role(aws, f"{deployment.name}-{name}"),
        )
    aws.client("scheduler").create_schedule_group(Name=f"{deployment.name}-guard")


def scale(aws: Aws, deployment: Deployment, size: int) -> None:
    """The Trainium nodes, by hand: with no guard."""
    aws.client("eks").update_nodegroup_config(
        clusterName=deployment.name,
        nodegroupName="its-nodes",
        scalingConfig={"desiredSize": size},
    )


def sizes(deployment: Deployment) -> dict[str, int]:
    """Of both groups."""
    return {group.kind: group.size for group in nodes.groups(deployment)}


def schedules(aws: Aws, deployment: Deployment) -> list[dict[str, Any]]:
    """Of the guards."""
    listed = aws.client("scheduler").list_schedules(GroupName=f"{deployment.name}-guard")
    return [*listed["Schedules"]]


def put(aws: Aws, deployment: Deployment, *keys: str, body: str = "") -> None:
    """Objects in the experiment's bucket, which is made if there is none."""
    name = f"{deployment.name}-models-{deployment.account}-{deployment.region}"
    s3 = aws.client("s3")
    if name not in {each["Name"] for each in s3.list_buckets()["Buckets"]}:
        s3.create_bucket(
            Bucket=name, CreateBucketConfiguration={"LocationConstraint": deployment.region}
        )
    for key in keys:
        s3.put_object(Bucket=name, Key=key, Body=body.encode())
