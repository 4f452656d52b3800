#!/usr/bin/env python3
"""Trainium nodes, their DRA driver and what ends them, for an EKS cluster that exists.

``cdk --app "python3 examples/existing_cluster.py" synth`` in the repository's folder. Every name
and id is yours to change.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_iam as iam

from stacks.constructs.neuron import NeuronDraDriver, NeuronNodeGroup
from stacks.constructs.scale_to_zero import ScaleToZero

app = cdk.App()
stack = cdk.Stack(app, "platform-neuron", env=cdk.Environment(region="us-east-2"))
vpc = ec2.Vpc.from_vpc_attributes(
    stack,
    "Vpc",
    vpc_id="vpc-0123456789abcdef0",
    availability_zones=["us-east-2b"],
    private_subnet_ids=["subnet-0123456789abcdef0"],
)
# Of the stack that made the cluster: what installs charts there, and its role.
kubectl = eks.KubectlProvider.from_kubectl_provider_attributes(
    stack,
    "Kubectl",
    service_token=f"arn:aws:lambda:us-east-2:{stack.account}:function:platform-kubectl",
    role=iam.Role.from_role_name(stack, "KubectlRole", "platform-kubectl"),
)
cluster = eks.Cluster.from_cluster_attributes(
    stack,
    "Cluster",
    cluster_name="platform",
    cluster_security_group_id="sg-0123456789abcdef0",
    kubectl_provider=kubectl,
    vpc=vpc,
)
neuron = NeuronNodeGroup(
    stack,
    "Neuron",
    cluster=cluster,
    subnets=ec2.SubnetSelection(subnets=vpc.private_subnets),
    instance_type="trn2.48xlarge",
    network_cards=16,
    max_nodes=2,
    capacity_type=eks.CapacityType.CAPACITY_BLOCK,
    reservation_id="cr-0123456789abcdef0",
    ami_release="1.35.6-20260714",
    labels={"accelerator": "trainium2"},
    taint="aws.amazon.com/neuron",
    taint_value="present",
    instance_tags={"Name": "platform-trainium"},
)
NeuronDraDriver(stack, "Driver", cluster=cluster, nodes=neuron)
ScaleToZero(
    stack,
    "ScaleToZero",
    cluster_name=cluster.cluster_name,
    nodes=neuron.nodes,
    state_machine_name="platform-stop",
)
app.synth()
