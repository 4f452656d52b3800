"""Trainium or Inferentia nodes, a group without any until one asks for them, and their DRA driver.

Sources: EKS User Guide, "Use Capacity Blocks for ML with managed node groups" and "Run machine
learning training with Elastic Fabric Adapter"; Amazon EC2 User Guide, "Elastic Fabric Adapter".
"""

from collections.abc import Mapping
from typing import Any, Final, cast

from aws_cdk import CfnTag, Duration, Fn
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_eks_v2 as eks
from constructs import Construct, IDependable

from stacks.security import node_role

VOLUME_GIB: Final = 100
"""Root volume. Images, pods and their logs are on the instance's own disks
(amazon-eks-ami 81fec2e8, ``setup-local-disks``)."""
CHART: Final = "public.ecr.aws/neuron/neuron-helm-chart"
CHART_VERSION: Final = "1.10.0"
DRIVER_VERSION: Final = "1.2"
"""Version in the chart. It serves ``resource.k8s.io/v1`` and ``neuron.aws.com/v1``."""
_FRAME: Final = """\
MIME-Version: 1.0
Content-Type: multipart/mixed; boundary="BOUNDARY"

--BOUNDARY
Content-Type: application/node.eks.aws

---
apiVersion: node.eks.aws/v1alpha1
kind: NodeConfig
spec:
  featureGates:
    FastImagePull: true
{more}
--BOUNDARY--
"""
_LOCAL_DISKS: Final = """\
  instance:
    localStorage:
      strategy: RAID0
"""


def user_data(*, local_disks: bool) -> str:
    """nodeadm's configuration, to which EKS appends the cluster's address.

    ``local_disks`` makes one file system of the NVMe disks, with kubelet's and containerd's
    directories on it.
    """
    return _FRAME.format(more=_LOCAL_DISKS if local_disks else "")


class NeuronNodeGroup(Construct):
    """Its nodes run the AL2023 Neuron AMI, with EFA on each network card and NVMe disks as RAID0.

    The group is made with 0 nodes, and a deploy leaves its size alone: CloudFormation sends sizes
    only when the template's change, and these do not while ``max_nodes`` stays the same. A new
    ``capacity_type`` or new ``subnets`` replace the group, and its nodes go.

    The nodes' role has no AmazonEKS_CNI_Policy: the cluster's CNI must have a role of its own.
    """

    nodes: eks.Nodegroup

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        cluster: eks.ICluster,
        subnets: ec2.SubnetSelection,
        instance_type: str,
        network_cards: int,
        max_nodes: int,
        capacity_type: eks.CapacityType,
        reservation_id: str | None,
        ami_release: str,
        labels: Mapping[str, str],
        taint: str,
        taint_value: str,
        instance_tags: Mapping[str, str],
    ) -> None:
        """A group of ``cluster``, whose VPC and security group are known.

        - ``subnets``: private ones, of the one zone that has the capacity.
        - ``network_cards``: of ``instance_type``, 16 of trn2.48xlarge (EC2 User Guide, "Elastic
          Fabric Adapter"). Each gets an EFA interface. With 0 the nodes have a plain one and the
          cluster's security group, which EKS adds, and no placement group.
        - ``max_nodes``: the most that may be asked for. A change of it scales the group to 0.
        - ``reservation_id``: of a Capacity Block (``CAPACITY_BLOCK``) or of an on-demand capacity
          reservation (``ON_DEMAND``). Without one, nodes with EFA are in a cluster placement group.
        - ``ami_release``: e.g. ``1.35.6-20260714``, for the cluster's Kubernetes (changelog of
          awslabs/amazon-eks-ami). Its driver must suit the Neuron runtime of the images.
        - ``taint``: key of the taint ``NoSchedule``; the DRA driver tolerates
          ``aws.amazon.com/neuron`` with any ``taint_value``.
        - ``instance_tags``: also of their volumes and interfaces, to which EKS passes no tag on.

        Raises ValueError if ``capacity_type`` and ``reservation_id`` do not go together.
        """
        super().__init__(scope, construct_id)
        reserves = {eks.CapacityType.CAPACITY_BLOCK: {True}, eks.CapacityType.SPOT: {False}}
        if (reservation_id is not None) not in reserves.get(capacity_type, {True, False}):
            raise ValueError(f"{capacity_type.name} with reservation_id={reservation_id!r}")
        template = self._launch_template(
            instance_type,
            interfaces=self._interfaces(cluster, network_cards) if network_cards else None,
            is_block=capacity_type is eks.CapacityType.CAPACITY_BLOCK,
            reservation_id=reservation_id,
            tags=[CfnTag(key=key, value=value) for key, value in instance_tags.items()],
        )
        self.nodes = eks.Nodegroup(
            self,
            "Nodes",
            cluster=cluster,
            # Without it, the construct silently falls back to AL2.
            ami_type=eks.NodegroupAmiType.AL2023_X86_64_NEURON,
            release_version=ami_release,
            capacity_type=capacity_type,
            # EKS wants all three of a new group.
            min_size=0,
            desired_size=0,
            max_size=max_nodes,
            subnets=subnets,
            node_role=node_role(self, "NodeRole"),
            launch_template_spec=eks.LaunchTemplateSpec(
                id=template.ref, version=template.attr_latest_version_number
            ),
            labels=labels,
            taints=[
                eks.TaintSpec(key=taint, value=taint_value, effect=eks.TaintEffect.NO_SCHEDULE)
            ],
            enable_node_auto_repair=True,
            max_unavailable=1,
        )
        # By default EKS starts a new node before it ends the old one. That second node would exceed
        # quota, reservation and budget. The construct has no property for this.
        group = cast(eks.CfnNodegroup, self.nodes.node.default_child)
        group.add_property_override("UpdateConfig.UpdateStrategy", "MINIMAL")

    def _launch_template(
        self,
        instance_type: str,
        *,
        interfaces: list[ec2.CfnLaunchTemplate.NetworkInterfaceProperty] | None,
        is_block: bool,
        reservation_id: str | None,
        tags: list[CfnTag],
    ) -> ec2.CfnLaunchTemplate:
        launch = ec2.CfnLaunchTemplate
        placement = reservation = None
        # A Capacity Block accepts no placement group, and a reservation only its own.
        if reservation_id is None and interfaces:
            cluster_strategy = ec2.PlacementGroupStrategy.CLUSTER
            group = ec2.PlacementGroup(self, "PlacementGroup", strategy=cluster_strategy)
            placement = launch.PlacementProperty(group_name=group.placement_group_name)
        if reservation_id:
            reservation = launch.CapacityReservationSpecificationProperty(
                capacity_reservation_target=launch.CapacityReservationTargetProperty(
                    capacity_reservation_id=reservation_id
                )
            )
        block = launch.InstanceMarketOptionsProperty(market_type="capacity-block")
        of_template = launch.LaunchTemplateTagSpecificationProperty(
            resource_type="launch-template", tags=tags
        )
        disk = launch.EbsProperty(
            volume_type="gp3", volume_size=VOLUME_GIB, encrypted=True, delete_on_termination=True
        )
        return launch(
            self,
            "LaunchTemplate",
            launch_template_data=launch.LaunchTemplateDataProperty(
                # Here and not in the node group, because aws_eks_v2 refuses the Neuron AMI type
                # together with instance_types=[trn2.48xlarge].
                instance_type=instance_type,
                instance_market_options=block if is_block else None,
                capacity_reservation_specification=reservation,
                placement=placement,
                network_interfaces=interfaces,
                metadata_options=launch.MetadataOptionsProperty(
                    http_tokens="required", http_put_response_hop_limit=1
                ),
                block_device_mappings=[
                    launch.BlockDeviceMappingProperty(device_name="/dev/xvda", ebs=disk)
                ],
                user_data=Fn.base64(user_data(local_disks=True)),
                tag_specifications=[
                    launch.TagSpecificationProperty(resource_type=kind, tags=tags)
                    for kind in ("instance", "volume", "network-interface")
                ],
            ),
            tag_specifications=[of_template],
        )

    def _interfaces(
        self, cluster: eks.ICluster, network_cards: int
    ) -> list[ec2.CfnLaunchTemplate.NetworkInterfaceProperty]:
        """EFA interfaces, in a security group open to its own members in both directions."""
        fabric = ec2.SecurityGroup(
            self,
            "Fabric",
            vpc=cluster.vpc,
            description="Neuron nodes among themselves, EFA",
            allow_all_outbound=True,
        )
        own_id = fabric.security_group_id
        rule: dict[str, Any] = {"group_id": own_id, "ip_protocol": "-1", "description": "EFA"}
        ec2.CfnSecurityGroupIngress(self, "FabricIngress", source_security_group_id=own_id, **rule)
        ec2.CfnSecurityGroupEgress(
            self, "FabricEgress", destination_security_group_id=own_id, **rule
        )
        return [
            ec2.CfnLaunchTemplate.NetworkInterfaceProperty(
                network_card_index=card,
                device_index=0 if card == 0 else 1,
                interface_type="efa",
                # EKS adds none if the template has interfaces. So they name the cluster's.
                groups=[cluster.cluster_security_group_id, own_id],
                associate_public_ip_address=False,
                delete_on_termination=True,
            )
            for card in range(network_cards)
        ]


class NeuronDraDriver(Construct):
    """The driver without the device plugin, which would hand the same devices out twice.

    The cluster has Kubernetes 1.34 or newer and no other Neuron device plugin. Its kubectl provider
    installs the chart and does not wait for the driver, which becomes ready only with a node. The
    driver is removed before ``nodes``, so that it can clean up after itself.
    """

    def __init__(
        self, scope: Construct, construct_id: str, *, cluster: eks.ICluster, nodes: IDependable
    ) -> None:
        super().__init__(scope, construct_id)
        eks.HelmChart(
            self,
            "Chart",
            cluster=cluster,
            release="neuron",
            repository=f"oci://{CHART}",
            chart="neuron-helm-chart",
            version=CHART_VERSION,
            namespace="kube-system",
            create_namespace=False,
            wait=False,
            timeout=Duration.minutes(10),
            values={
                "draDriver": {"enabled": True},
                "devicePlugin": {"enabled": False},
                # EKS repairs nodes itself (eks-node-monitoring-agent).
                "npd": {"enabled": False},
            },
        )
        self.node.add_dependency(nodes)
