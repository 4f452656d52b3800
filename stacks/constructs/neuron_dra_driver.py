"""The Neuron DRA driver, by its Helm chart."""

from typing import Final

from aws_cdk import Duration
from aws_cdk import aws_eks_v2 as eks
from constructs import Construct, IDependable

CHART: Final = "public.ecr.aws/neuron/neuron-helm-chart"
CHART_VERSION: Final = "1.10.0"
DRIVER_VERSION: Final = "1.2"
"""Version in the chart. It serves ``resource.k8s.io/v1`` and ``neuron.aws.com/v1``."""


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
