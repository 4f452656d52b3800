"""Neuron nodes in a cluster that was imported. A whole group of the article's is a snapshot."""

from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_iam as iam
from aws_cdk.assertions import Template

from stacks.constructs.neuron import NeuronNodeGroup


def imported() -> tuple[cdk.Stack, eks.ICluster]:
    stack = cdk.Stack(cdk.App(), "Stack", env=cdk.Environment(region="eu-north-1"))
    vpc = ec2.Vpc.from_vpc_attributes(
        stack,
        "Vpc",
        vpc_id="vpc-0123456789abcdef0",
        availability_zones=["eu-north-1a"],
        private_subnet_ids=["subnet-0123456789abcdef0"],
    )
    kubectl = eks.KubectlProvider.from_kubectl_provider_attributes(
        stack,
        "Kubectl",
        service_token="arn:aws:lambda:eu-north-1:111122223333:function:kubectl",
        role=iam.Role.from_role_name(stack, "KubectlRole", "kubectl"),
    )
    cluster = eks.Cluster.from_cluster_attributes(
        stack,
        "Cluster",
        cluster_name="theirs",
        cluster_security_group_id="sg-1",
        kubectl_provider=kubectl,
        vpc=vpc,
    )
    return stack, cluster


def neuron_nodes(**changes: Any) -> Template:
    stack, cluster = imported()
    properties: dict[str, Any] = {
        "subnets": ec2.SubnetSelection(subnets=cluster.vpc.private_subnets),
        "instance_type": "trn2.48xlarge",
        "network_cards": 16,
        "max_nodes": 2,
        "capacity_type": eks.CapacityType.ON_DEMAND,
        "reservation_id": None,
        "ami_release": "1.35.6-20260714",
        "labels": {"a": "label"},
        "taint": "a-taint",
        "taint_value": "a-value",
        "instance_tags": {"Name": "a-name"},
    }
    NeuronNodeGroup(stack, "Neuron", cluster=cluster, **properties | changes)
    return Template.from_stack(stack)


@pytest.mark.parametrize(("capacity", "reservation"), [("CAPACITY_BLOCK", None), ("SPOT", "cr-1")])
def test_capacity_that_cannot_be_is_refused(capacity: str, reservation: str | None) -> None:
    with pytest.raises(ValueError, match=capacity):
        neuron_nodes(capacity_type=eks.CapacityType[capacity], reservation_id=reservation)


def test_nodes_without_efa_have_the_clusters_security_group_alone_and_no_placement_group() -> None:
    template = neuron_nodes(network_cards=0)
    template.has_resource_properties("AWS::EKS::Nodegroup", {"ScalingConfig": {"MaxSize": 2}})
    (launch,) = template.find_resources("AWS::EC2::LaunchTemplate").values()
    data = launch["Properties"]["LaunchTemplateData"]
    assert not {"NetworkInterfaces", "Placement", "SecurityGroupIds"} & data.keys()
    assert not template.find_resources("AWS::EC2::SecurityGroup")
