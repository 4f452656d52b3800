"""Trainium nodes, and CPU nodes that compile for them; what ends both; the Neuron DRA driver."""

from typing import Any, Final, cast

from aws_cdk import Aws, CfnCondition, CfnOutput, CfnParameter, CfnTag, Duration, Fn, Stack
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_eks_v2 as eks
from constructs import Construct

from charts.names import COMPILE_NODES, NEURON_TAINT, NODE_GROUP_LABEL, TRAINIUM_NODES
from experiment.schema import Capacity, CompileNode, Experiment, Purchase
from stacks.guard import TAG, Guard, Stopper
from stacks.nodes import compile_node_group, user_data
from stacks.roles import node_role

NEURON_CHART_VERSION: Final = "1.10.0"
"""Contains DRA driver 1.2.0, which serves ``resource.k8s.io/v1`` and ``neuron.aws.com/v1``."""


class TrainiumStack(Stack):
    """The node groups, without nodes: commands start them, by the outputs of this stack."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        experiment: Experiment,
        cluster: eks.ICluster,
        **kwargs: Any,
    ) -> None:
        super().__init__(scope, construct_id, **kwargs)
        template = self._launch_template(experiment.name, experiment.capacity, cluster)
        guard = Guard(self, "Guard", name=experiment.name, cluster=experiment.cluster_name)
        self._output("GuardGroup", guard.group.ref, "Schedules that scale nodes to 0")
        role = guard.role("Role", TRAINIUM_NODES)
        self._output("GuardRole", role.role_arn, "Of their schedule")
        self.nodes = self._node_group(experiment, cluster, template)
        trainium = self._started_by_commands("NodeGroup", "KeepTrainiumNodes", self.nodes)
        self._dra_driver(cluster)
        stopper = Stopper(self, "ScaleToZero", experiment, trainium)
        self._output("Stopper", stopper.arn, "State machine that ends the Trainium nodes")
        self._output(
            "Stop",
            f"aws eks update-nodegroup-config --region {self.region} "
            f"--cluster-name {experiment.cluster_name} "
            f"--nodegroup-name {trainium.attr_nodegroup_name} "
            "--scaling-config minSize=0,desiredSize=0",
            "Ends the Trainium nodes now",
        )
        groups = [self.nodes]
        if experiment.compile_node is CompileNode.CPU:
            role = guard.role("CompileRole", COMPILE_NODES)
            self._output("CompileGuardRole", role.role_arn, "Of their schedule")
            compiling = compile_node_group(
                self, "CompileNodes", experiment=experiment, cluster=cluster
            )
            self._started_by_commands("CompileNodeGroup", "KeepCompileNodes", compiling)
            groups.append(compiling)
        for group in groups:
            # Made after all that guards it, and deleted before.
            group.node.add_dependency(guard)

    def _output(self, name: str, value: str, description: str) -> None:
        CfnOutput(self, name, value=value, description=description)

    def _started_by_commands(
        self, output: str, parameter: str, nodes: eks.Nodegroup
    ) -> eks.CfnNodegroup:
        """A new group has no nodes, and an update leaves those be that stand.

        CloudFormation does nothing to a size that the template no longer has (Amazon EKS API
        reference, ``NodegroupScalingConfig``), but a new group must have one. So whoever deploys
        says of each group whether it has nodes.
        """
        group = cast(eks.CfnNodegroup, nodes.node.default_child)
        self._output(output, group.attr_nodegroup_name, "Nodes that commands start")
        has_nodes = CfnParameter(
            self,
            parameter,
            default="false",
            allowed_values=["true", "false"],
            description="Whether the group has nodes, whose number this update must not change",
        )
        condition = CfnCondition(
            self,
            f"{parameter}Now",
            expression=Fn.condition_equals(has_nodes.value_as_string, "true"),
        )
        group.add_property_override(
            "ScalingConfig.DesiredSize", Fn.condition_if(condition.logical_id, Aws.NO_VALUE, 0)
        )
        return group

    def _launch_template(
        self, name: str, capacity: Capacity, cluster: eks.ICluster
    ) -> ec2.CfnLaunchTemplate:
        launch = ec2.CfnLaunchTemplate
        tags = [CfnTag(key="Experiment", value=name), CfnTag(key="Name", value=f"{name}-trainium")]
        placement = reservation = market = None
        # A Capacity Block accepts no placement group, and a reservation only its own.
        if not capacity.purchase.reserved:
            cluster_strategy = ec2.PlacementGroupStrategy.CLUSTER
            group = ec2.PlacementGroup(self, "PlacementGroup", strategy=cluster_strategy)
            placement = launch.PlacementProperty(group_name=group.placement_group_name)
        else:
            reservation = launch.CapacityReservationSpecificationProperty(
                capacity_reservation_target=launch.CapacityReservationTargetProperty(
                    capacity_reservation_id=capacity.reservation_id
                )
            )
        if capacity.purchase is Purchase.CAPACITY_BLOCK:
            market = launch.InstanceMarketOptionsProperty(market_type="capacity-block")
        # EKS adds no security group if the template has interfaces. So they name the cluster's.
        groups = [cluster.cluster_security_group_id, self._fabric(cluster).security_group_id]
        # An EFA interface for each network card.
        interfaces = [
            launch.NetworkInterfaceProperty(
                network_card_index=card,
                device_index=0 if card == 0 else 1,
                interface_type="efa",
                groups=groups,
                associate_public_ip_address=False,
                delete_on_termination=True,
            )
            for card in range(capacity.instance.network_interfaces)
        ]
        of_template = launch.LaunchTemplateTagSpecificationProperty(
            resource_type="launch-template", tags=tags
        )
        disk = launch.EbsProperty(
            volume_type="gp3", volume_size=500, encrypted=True, delete_on_termination=True
        )
        return launch(
            self,
            "LaunchTemplate",
            launch_template_data=launch.LaunchTemplateDataProperty(
                # Here and not in the node group, because aws_eks_v2 refuses the Neuron AMI type
                # together with instance_types=[trn2.48xlarge].
                instance_type=capacity.instance_type,
                instance_market_options=market,
                capacity_reservation_specification=reservation,
                placement=placement,
                network_interfaces=interfaces,
                metadata_options=launch.MetadataOptionsProperty(
                    http_tokens="required", http_put_response_hop_limit=1
                ),
                block_device_mappings=[
                    launch.BlockDeviceMappingProperty(device_name="/dev/xvda", ebs=disk)
                ],
                # Compiling needs 30 to 50 GB of scratch space, weights 60 GB and images 20 GB.
                user_data=Fn.base64(user_data(local_disks=True)),
                tag_specifications=[
                    launch.TagSpecificationProperty(resource_type=kind, tags=tags)
                    for kind in ("instance", "volume", "network-interface")
                ],
            ),
            tag_specifications=[of_template],
        )

    def _fabric(self, cluster: eks.ICluster) -> ec2.SecurityGroup:
        """A security group open to its own members in both directions, which EFA needs."""
        group = ec2.SecurityGroup(
            self,
            "Fabric",
            vpc=cluster.vpc,
            description="Trainium nodes among themselves, EFA",
            allow_all_outbound=True,
        )
        own_id = group.security_group_id
        rule: dict[str, Any] = {"group_id": own_id, "ip_protocol": "-1", "description": "EFA"}
        ec2.CfnSecurityGroupIngress(self, "FabricIngress", source_security_group_id=own_id, **rule)
        ec2.CfnSecurityGroupEgress(
            self, "FabricEgress", destination_security_group_id=own_id, **rule
        )
        return group

    def _node_group(
        self, experiment: Experiment, cluster: eks.ICluster, template: ec2.CfnLaunchTemplate
    ) -> eks.Nodegroup:
        capacity = experiment.capacity
        # A reservation is billed as on-demand. The launch template names it.
        reserved = capacity.purchase is Purchase.RESERVATION
        purchase = Purchase.ON_DEMAND if reserved else capacity.purchase
        nodes = eks.Nodegroup(
            self,
            "Nodes",
            cluster=cluster,
            # Without it, the construct silently falls back to AL2.
            ami_type=eks.NodegroupAmiType.AL2023_X86_64_NEURON,
            # The newest one's driver may be one that the image's runtime library cannot start with.
            release_version=experiment.serving_runtime.ami_release,
            capacity_type=eks.CapacityType[purchase.name],
            min_size=0,
            desired_size=0,
            max_size=capacity.nodes,
            subnets=ec2.SubnetSelection(
                subnet_type=ec2.SubnetType.PRIVATE_WITH_EGRESS,
                availability_zones=[capacity.availability_zone],
            ),
            node_role=node_role(self, "NodeRole"),
            launch_template_spec=eks.LaunchTemplateSpec(
                id=template.ref, version=template.attr_latest_version_number
            ),
            labels={NODE_GROUP_LABEL: TRAINIUM_NODES},
            tags={TAG: TRAINIUM_NODES},
            taints=[
                eks.TaintSpec(key=NEURON_TAINT, value="present", effect=eks.TaintEffect.NO_SCHEDULE)
            ],
            enable_node_auto_repair=True,
            max_unavailable=1,
        )
        # By default EKS starts a new node before it ends the old one. That second trn2 would exceed
        # quota, reservation and budget. The construct has no property for this.
        group = cast(eks.CfnNodegroup, nodes.node.default_child)
        group.add_property_override("UpdateConfig.UpdateStrategy", "MINIMAL")
        return nodes

    def _dra_driver(self, cluster: eks.ICluster) -> None:
        """The driver without the device plugin, which would hand the same devices out twice."""
        driver = eks.HelmChart(
            self,
            "NeuronDra",
            cluster=cluster,
            release="neuron",
            repository="oci://public.ecr.aws/neuron/neuron-helm-chart",
            chart="neuron-helm-chart",
            version=NEURON_CHART_VERSION,
            namespace="kube-system",
            create_namespace=False,
            # The handler has 15 minutes, but the driver becomes ready only with its node.
            wait=False,
            timeout=Duration.minutes(10),
            values={
                "draDriver": {"enabled": True},
                "devicePlugin": {"enabled": False},
                # EKS repairs nodes itself (eks-node-monitoring-agent).
                "npd": {"enabled": False},
            },
        )
        # Removed before its nodes, so that it can clean up after itself.
        driver.node.add_dependency(self.nodes)
