"""A stack of nobody's app, with an imported cluster."""

from typing import Any

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_iam as iam

from stacks.constructs.neuron_node_group import NeuronNodeGroup


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


def neuron_nodes(
    stack: cdk.Stack, cluster: eks.ICluster, construct_id: str = "Neuron", **changes: Any
) -> NeuronNodeGroup:
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
    return NeuronNodeGroup(stack, construct_id, cluster=cluster, **properties | changes)
