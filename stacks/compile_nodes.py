"""CPU nodes that stand while graphs are compiled."""

from __future__ import annotations

from typing import Final

from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_eks_v2 as eks
from constructs import Construct

from charts.names import COMPILE_NODES, NODE_GROUP_LABEL
from experiment.hardware import COMPILE_INSTANCE, compile_nodes
from experiment.schema import Experiment
from experiment.variants import variants
from stacks.node_config import user_data
from stacks.roles import node_role

VOLUME_GIB: Final = 1024
"""A compile pod may fill 600 GiB, and images take 40. Kubelet evicts pods if less than a tenth is
free."""


def compile_node_group(
    scope: Construct, construct_id: str, *, experiment: Experiment, cluster: eks.ICluster
) -> eks.Nodegroup:
    """A node group without nodes: the stage that compiles starts one for each missing graph."""
    template = ec2.LaunchTemplate(
        scope,
        f"{construct_id}Template",
        http_tokens=ec2.LaunchTemplateHttpTokens.REQUIRED,
        http_put_response_hop_limit=1,
        block_devices=[
            ec2.BlockDevice(
                device_name="/dev/xvda",
                volume=ec2.BlockDeviceVolume.ebs(
                    VOLUME_GIB,
                    encrypted=True,
                    volume_type=ec2.EbsDeviceVolumeType.GP3,
                    # The most that gp3 has: checkpoints, shards and images pass through it.
                    iops=6000,
                    throughput=1000,
                    delete_on_termination=True,
                ),
            )
        ],
        user_data=ec2.UserData.custom(user_data(local_disks=False)),
    )
    return eks.Nodegroup(
        scope,
        construct_id,
        cluster=cluster,
        ami_type=eks.NodegroupAmiType.AL2023_X86_64_STANDARD,
        instance_types=[ec2.InstanceType(COMPILE_INSTANCE.name)],
        min_size=0,
        desired_size=0,
        max_size=compile_nodes(len(variants(experiment))),
        subnets=ec2.SubnetSelection(subnet_type=ec2.SubnetType.PRIVATE_WITH_EGRESS),
        node_role=node_role(scope, f"{construct_id}Role"),
        launch_template_spec=eks.LaunchTemplateSpec(
            id=str(template.launch_template_id), version=template.latest_version_number
        ),
        labels={NODE_GROUP_LABEL: COMPILE_NODES},
        taints=[
            eks.TaintSpec(key=COMPILE_NODES, value="present", effect=eks.TaintEffect.NO_SCHEDULE)
        ],
        enable_node_auto_repair=True,
    )
