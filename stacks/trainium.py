"""Trainium nodes, and CPU nodes that compile for them; what ends both; the Neuron DRA driver."""

from typing import Final

from aws_cdk import CfnOutput
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_eks_v2 as eks
from constructs import Construct

from charts.names import (
    COMPILE_NODES,
    NEURON_TAINT,
    NODE_GROUP_LABEL,
    TRAINIUM_NODES,
    node_label,
    stopper_name,
    taint_value,
)
from experiment.fields import Origin
from experiment.schema import CompileNode, Experiment, Purchase
from stacks.cluster import KUBERNETES_VERSION
from stacks.constructs.neuron import CHART_VERSION, NeuronDraDriver, NeuronNodeGroup
from stacks.constructs.scale_to_zero import ScaleToZero
from stacks.nodes import compile_node_group
from stacks.stack import ExperimentStack

DRIVER_OUTPUT: Final = "DraDriver"


class TrainiumStack(ExperimentStack):
    """The node groups, without nodes: commands start them, by the outputs of this stack.

    Their sizes do not depend on the experiment's file: with a changed size CloudFormation sends
    ``DesiredSize: 0``, too (docs/decisions/0027).
    """

    def __init__(
        self, scope: Construct, experiment: Experiment, account: str | None, cluster: eks.ICluster
    ) -> None:
        super().__init__(scope, f"{experiment.name}-trainium", experiment, account)
        nodes = self._trainium_nodes(experiment, cluster)
        groups = {TRAINIUM_NODES: nodes}
        if experiment.compile_node is CompileNode.CPU:
            groups[COMPILE_NODES] = compile_node_group(self, cluster, KUBERNETES_VERSION)
        makes_driver = experiment.aws.dra_driver is Origin.MAKE
        if makes_driver:
            NeuronDraDriver(self, "NeuronDra", cluster=cluster, nodes=nodes)
        stopper = ScaleToZero(
            self,
            "ScaleToZero",
            cluster_name=experiment.cluster_name,
            nodes=nodes,
            state_machine_name=stopper_name(experiment),
        ).stopper
        outputs = {
            "Stopper": (stopper.state_machine_arn, "State machine that ends the Trainium nodes"),
            # Only the command makes their guard first.
            "Start": ("make start EXPERIMENT=...", "Starts the Trainium nodes and their guard"),
            "Stop": (
                f"aws eks update-nodegroup-config --region {self.region} --cluster-name "
                f"{experiment.cluster_name} --nodegroup-name {nodes.nodegroup_name} "
                "--scaling-config minSize=0,desiredSize=0",
                "Ends the Trainium nodes now",
            ),
        }
        if makes_driver:
            outputs[DRIVER_OUTPUT] = CHART_VERSION, "Chart of the DRA driver that this stack has"
        for kind, group in groups.items():
            prefix = "" if kind == TRAINIUM_NODES else kind.capitalize()
            name = group.nodegroup_name
            outputs[f"{prefix}NodeGroup"] = name, "Nodes that commands start"
        for output, (value, description) in outputs.items():
            CfnOutput(self, output, value=value, description=description)

    def _trainium_nodes(self, experiment: Experiment, cluster: eks.ICluster) -> eks.Nodegroup:
        capacity = experiment.capacity
        # A reservation is billed as on-demand. The launch template names it.
        reserved = capacity.purchase is Purchase.RESERVATION
        purchase = Purchase.ON_DEMAND if reserved else capacity.purchase
        return NeuronNodeGroup(
            self,
            "Trainium",
            cluster=cluster,
            subnets=ec2.SubnetSelection(
                subnet_type=ec2.SubnetType.PRIVATE_WITH_EGRESS,
                availability_zones=[capacity.availability_zone],
            ),
            instance_type=capacity.instance_type,
            network_cards=capacity.instance.network_interfaces,
            max_nodes=1,  # the least that EKS takes; make start raises it
            capacity_type=eks.CapacityType[purchase.name],
            reservation_id=capacity.reservation_id,
            # The newest one's driver may be one that the image's runtime library cannot start with.
            ami_release=experiment.serving_runtime.ami_release,
            labels={NODE_GROUP_LABEL: node_label(experiment, TRAINIUM_NODES)},
            taint=NEURON_TAINT,
            taint_value=taint_value(experiment),
            instance_tags={**experiment.tags, "Name": f"{experiment.name}-trainium"},
        ).nodes
