"""CPU nodes: those of the system, and those that compile."""

from typing import Any, Final, cast

from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_iam as iam

from charts.names import COMPILE_NODES, NODE_GROUP_LABEL, node_label, taint_value
from experiment.hardware import SYSTEM_INSTANCE, SYSTEM_NODES
from stacks.constructs.neuron import user_data
from stacks.security import node_role
from stacks.stack import ExperimentStack

VOLUME_GIB: Final = 1024
"""A compile pod may fill 600 GiB, and images take 40. Kubelet evicts pods if less than a tenth is
free."""


def system_node_group(
    stack: ExperimentStack, cluster: eks.ICluster, kubernetes_version: str, role: iam.Role
) -> eks.Nodegroup:
    """For the add-ons, the downloads and the load generator."""
    return _node_group(
        stack,
        "SystemNodes",
        "SystemNodeTemplate",
        cluster,
        kubernetes_version,
        {"volume_size": 100},
        instance_types=[ec2.InstanceType(SYSTEM_INSTANCE)],
        min_size=SYSTEM_NODES,
        max_size=SYSTEM_NODES + 1,
        node_role=role,
    )


def compile_node_group(
    stack: ExperimentStack, cluster: eks.ICluster, kubernetes_version: str
) -> eks.Nodegroup:
    """A node group without nodes: the stage that compiles starts one for each missing graph."""
    experiment = stack.experiment
    return _node_group(
        stack,
        "CompileNodes",
        "CompileNodesTemplate",
        cluster,
        kubernetes_version,
        # The most that gp3 has: checkpoints, shards and images pass through it.
        {"volume_size": VOLUME_GIB, "iops": 6000, "throughput": 1000},
        user_data=ec2.UserData.custom(user_data(local_disks=False)),
        instance_types=[ec2.InstanceType(experiment.compile_instance.name)],
        min_size=0,
        desired_size=0,
        max_size=1,  # the least that EKS takes; make start raises it
        node_role=node_role(stack, "CompileNodesRole"),
        labels={NODE_GROUP_LABEL: node_label(experiment, COMPILE_NODES)},
        taints=[
            eks.TaintSpec(
                key=COMPILE_NODES,
                value=taint_value(experiment),
                effect=eks.TaintEffect.NO_SCHEDULE,
            )
        ],
    )


def _node_group(
    stack: ExperimentStack,
    construct_id: str,
    template_id: str,
    cluster: eks.ICluster,
    kubernetes_version: str,
    size: dict[str, Any],
    *,
    user_data: ec2.UserData | None = None,
    **settings: Any,
) -> eks.Nodegroup:
    """CPU nodes in private subnets; ``settings`` are further properties."""
    gp3 = ec2.EbsDeviceVolumeType.GP3
    volume = ec2.BlockDeviceVolume.ebs(
        **size, encrypted=True, volume_type=gp3, delete_on_termination=True
    )
    template = ec2.LaunchTemplate(
        stack,
        template_id,
        http_tokens=ec2.LaunchTemplateHttpTokens.REQUIRED,
        http_put_response_hop_limit=1,
        block_devices=[ec2.BlockDevice(device_name="/dev/xvda", volume=volume)],
        user_data=user_data,
    )
    # The construct tags instances and volumes. EKS passes no tag on to interfaces.
    launch = cast(ec2.CfnLaunchTemplate, template.node.default_child)
    launch.add_property_override(
        "LaunchTemplateData.TagSpecifications.2",
        {
            "ResourceType": "network-interface",
            "Tags": [{"Key": key, "Value": value} for key, value in stack.experiment.tags.items()],
        },
    )
    nodes = eks.Nodegroup(
        stack,
        construct_id,
        cluster=cluster,
        ami_type=eks.NodegroupAmiType.AL2023_X86_64_STANDARD,
        subnets=ec2.SubnetSelection(
            subnet_type=ec2.SubnetType.PRIVATE_WITH_EGRESS,
            availability_zones=[*stack.experiment.aws.cpu_zones] or None,
        ),
        launch_template_spec=eks.LaunchTemplateSpec(
            id=str(template.launch_template_id), version=template.latest_version_number
        ),
        enable_node_auto_repair=True,
        **settings,
    )
    # Without it a newer control plane would leave the nodes on the old kubelet. The construct has
    # no property for it.
    group = cast(eks.CfnNodegroup, nodes.node.default_child)
    group.add_property_override("Version", kubernetes_version)
    return nodes
