"""A cluster of CloudFormation: what EKS and Auto Scaling then say of it."""

from __future__ import annotations

import json
from typing import Any

import pytest
import urllib3
from botocore.exceptions import ClientError

from rehearsal.aws.client import Aws
from rehearsal.aws.own_calls import SIZES
from tests.rehearsal.account.stacks import change, outputs, said, status

TRUST = {"Version": "2012-10-17", "Statement": []}


def template(sizes: dict[str, Any], **nodes: Any) -> dict[str, Any]:
    """A cluster with one group of nodes."""
    resources = {
        "Vpc": {"Type": "AWS::EC2::VPC", "Properties": {"CidrBlock": "10.9.0.0/16"}},
        "Subnet": {
            "Type": "AWS::EC2::Subnet",
            "Properties": {"VpcId": {"Ref": "Vpc"}, "CidrBlock": "10.9.0.0/24"},
        },
        "Role": {"Type": "AWS::IAM::Role", "Properties": {"AssumeRolePolicyDocument": TRUST}},
        "Cluster": {
            "Type": "AWS::EKS::Cluster",
            "Properties": {
                "Name": "small",
                "Version": "1.35",
                "RoleArn": {"Fn::GetAtt": ["Role", "Arn"]},
                "ResourcesVpcConfig": {"SubnetIds": [{"Ref": "Subnet"}]},
            },
        },
        "Nodes": {
            "Type": "AWS::EKS::Nodegroup",
            "Properties": {
                "ClusterName": {"Ref": "Cluster"},
                "NodeRole": {"Fn::GetAtt": ["Role", "Arn"]},
                "Subnets": [{"Ref": "Subnet"}],
                "ScalingConfig": {"MinSize": 0, "MaxSize": 3} | sizes,
                "Taints": [{"Key": "only", "Value": "these", "Effect": "NO_SCHEDULE"}],
            }
            | nodes,
        },
    }
    wanted = {
        "Nodes": {"Fn::GetAtt": ["Nodes", "NodegroupName"]},
        "Group": {"Fn::GetAtt": ["Cluster", "ClusterSecurityGroupId"]},
    }
    return {
        "Resources": resources,
        "Outputs": {name: {"Value": value} for name, value in wanted.items()},
    }


@pytest.fixture(scope="module")
def nodes(aws: Aws) -> str:
    """The group's name."""
    change(aws, "small", "CREATE", template({"DesiredSize": 0}))
    assert status(aws, "small") == "CREATE_COMPLETE", said(aws, "small")
    return outputs(aws, "small")["Nodes"]


def scaled(aws: Aws, nodes: str, **sizes: int) -> int:
    """The desired size, after EKS was asked for ``sizes``."""
    asked = {"clusterName": "small", "nodegroupName": nodes}
    if sizes:
        aws.client("eks").update_nodegroup_config(**asked, scalingConfig=sizes)
    found = aws.client("eks").describe_nodegroup(**asked)["nodegroup"]
    size: int = found["scalingConfig"]["desiredSize"]
    return size


def test_moto_makes_no_cluster(unmended: Any) -> None:
    cluster = {"Type": "AWS::EKS::Cluster", "Properties": {"Name": "small"}}
    body = json.dumps({"Resources": {"Cluster": cluster}})
    with pytest.warns(UserWarning, match="AWS::EKS::Cluster but it's not supported"):
        unmended("cloudformation").create_stack(StackName="small", TemplateBody=body)
    assert unmended("eks").list_clusters()["clusters"] == []


def test_the_group_is_as_the_template_says(aws: Aws, nodes: str) -> None:
    found = aws.client("eks").describe_nodegroup(clusterName="small", nodegroupName=nodes)
    assert found["nodegroup"]["scalingConfig"] == {"minSize": 0, "maxSize": 3, "desiredSize": 0}
    assert found["nodegroup"]["taints"] == [
        {"key": "only", "value": "these", "effect": "NO_SCHEDULE"}
    ]
    cluster = aws.client("eks").describe_cluster(name="small")["cluster"]
    assert cluster["version"] == "1.35"
    group = cluster["resourcesVpcConfig"]["clusterSecurityGroupId"]
    assert group == outputs(aws, "small")["Group"]
    assert aws.client("ec2").describe_security_groups(GroupIds=[group])["SecurityGroups"]


@pytest.mark.parametrize("sizes", [{"desiredSize": 4}, {"minSize": 2, "desiredSize": 1}])
def test_sizes_that_contradict_are_refused(aws: Aws, nodes: str, sizes: dict[str, int]) -> None:
    before = scaled(aws, nodes)
    with pytest.raises(ClientError, match="InvalidParameterException"):
        scaled(aws, nodes, **sizes)
    assert scaled(aws, nodes) == before


def test_instances_come_and_go_with_the_size(aws: Aws, nodes: str) -> None:
    scaled(aws, nodes, desiredSize=2)
    scaled(aws, nodes, desiredSize=0)
    found = aws.client("eks").describe_nodegroup(clusterName="small", nodegroupName=nodes)
    group = found["nodegroup"]["resources"]["autoScalingGroups"][0]["name"]
    activities = aws.client("autoscaling").describe_scaling_activities(AutoScalingGroupName=group)
    newest = [each["Description"].partition(":") for each in activities["Activities"][:4]]
    assert [what for what, _, _ in newest] == [
        *["Terminating EC2 instance"] * 2,
        *["Launching a new EC2 instance"] * 2,
    ]
    assert {of for _, _, of in newest[:2]} == {of for _, _, of in newest[2:]}
    history = urllib3.request("GET", f"{aws.url}{SIZES}").json()
    (mine,) = [each for each in history if each["nodegroup"] == nodes]
    assert [each["desired"] for each in mine["sizes"]][-2:] == [2, 0]


def test_an_update_leaves_a_size_alone_that_it_does_not_name(aws: Aws, nodes: str) -> None:
    scaled(aws, nodes, desiredSize=2)
    change(aws, "small", "UPDATE", template({}, Labels={"a": "b"}))
    assert status(aws, "small") == "UPDATE_COMPLETE", said(aws, "small")
    assert scaled(aws, nodes) == 2
    change(aws, "small", "UPDATE", template({"DesiredSize": 0}))
    assert scaled(aws, nodes) == 0


def test_another_kind_of_nodes_is_another_group(aws: Aws, nodes: str) -> None:
    change(aws, "small", "UPDATE", template({"DesiredSize": 0}, InstanceTypes=["m7i.xlarge"]))
    other = outputs(aws, "small")["Nodes"]
    assert other != nodes
    assert aws.client("eks").list_nodegroups(clusterName="small")["nodegroups"] == [other]


def test_a_deleted_cluster_leaves_nothing(aws: Aws, nodes: str) -> None:
    assert nodes
    group = outputs(aws, "small")["Group"]
    aws.client("cloudformation").delete_stack(StackName="small")
    assert "small" not in aws.client("eks").list_clusters()["clusters"]
    with pytest.raises(ClientError, match="does not exist"):
        aws.client("ec2").describe_security_groups(GroupIds=[group])
