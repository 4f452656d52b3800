"""EKS add-ons, each pinned to a version."""

import json
from collections.abc import Mapping
from typing import Any, Final

from aws_cdk import ArnFormat, Stack
from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_iam as iam
from constructs import IDependable

from stacks.security import (
    acknowledge,
    allow,
    log_group,
    managed_policy,
    pod_identity_principal,
)
from stacks.stack import ExperimentStack

VERSIONS: Final[Mapping[str, str]] = {
    "vpc-cni": "v1.22.4-eksbuild.3",
    "kube-proxy": "v1.35.3-eksbuild.29",
    "coredns": "v1.13.2-eksbuild.31",
    "eks-pod-identity-agent": "v1.3.10-eksbuild.3",
    "aws-mountpoint-s3-csi-driver": "v2.7.0-eksbuild.1",
    "eks-node-monitoring-agent": "v1.7.0-eksbuild.1",
    "amazon-cloudwatch-observability": "v6.6.0-eksbuild.1",
}
"""Versions for Kubernetes 1.35, chosen as docs/decisions/0014 says. ``make preflight``
refuses those that EKS does not offer."""


def networking_addons(stack: ExperimentStack, cluster: eks.ICluster) -> list[eks.CfnAddon]:
    """The add-ons that a node needs before it can become ready."""
    name = stack.experiment.cluster_name
    pods = pod_identity_principal(stack, name, "kube-system", "aws-node")
    role = iam.Role(stack, "VpcCniRole", assumed_by=pods)
    role.add_managed_policy(iam.ManagedPolicy.from_aws_managed_policy_name("AmazonEKS_CNI_Policy"))
    reason = "AWS keeps it in step with what each CNI version needs."
    acknowledge(role, {managed_policy("AmazonEKS_CNI_Policy"): reason})
    policies = {"enableNetworkPolicy": "true"}
    return [
        _addon(stack, "vpc-cni", cluster, configuration=policies, identity=("aws-node", role)),
        _addon(stack, "kube-proxy", cluster),
        _addon(stack, "eks-pod-identity-agent", cluster),
    ]


def node_addons(stack: ExperimentStack, cluster: eks.ICluster, *, after: IDependable) -> None:
    """The add-ons that need a node to become active.

    The S3 CSI driver has no role of its own, because a volume is mounted with the identity of the
    pod that mounts it.
    """
    for addon in (
        _addon(stack, "coredns", cluster),
        _addon(stack, "aws-mountpoint-s3-csi-driver", cluster),
        _addon(stack, "eks-node-monitoring-agent", cluster),
        _observability(stack, cluster),
    ):
        addon.node.add_dependency(after)


def _observability(stack: ExperimentStack, cluster: eks.ICluster) -> eks.CfnAddon:
    """Container Insights with Neuron's metrics, and pod logs; no application tracing."""
    prefix = f"/aws/containerinsights/{stack.experiment.cluster_name}"  # literal, as groups' names
    groups = [
        log_group(stack, f"{kind.capitalize()}Logs", f"{prefix}/{kind}")
        for kind in ("application", "dataplane", "host", "performance")
    ]
    insights = {"enhanced_container_insights": True, "accelerated_compute_metrics": True}
    addon = _addon(
        stack,
        "amazon-cloudwatch-observability",
        cluster,
        configuration={
            "agent": {"config": {"logs": {"metrics_collected": {"kubernetes": insights}}}},
            # Above all, the agents must run on the tainted Trainium nodes.
            "tolerations": [{"operator": "Exists"}],
            # Its default also follows from the agent's configuration, which has no tracing.
            "manager": {"applicationSignals": {"autoMonitor": {"monitorAllServices": False}}},
        },
        identity=("cloudwatch-agent", _agent_role(stack, prefix)),
    )
    addon.node.add_dependency(*groups)
    return addon


def _agent_role(stack: ExperimentStack, prefix: str) -> iam.Role:
    """Makes a role that may write log groups below ``prefix``, and describe its node.

    Metrics travel as log events (embedded metric format), so the agent needs no PutMetricData.
    CloudWatchAgentServerPolicy would allow these actions on every log group.
    """
    name = stack.experiment.cluster_name
    pods = pod_identity_principal(stack, name, "amazon-cloudwatch", "cloudwatch-agent")
    role = iam.Role(stack, "CloudWatchAgentRole", assumed_by=pods)
    actions = ("CreateLogGroup", "CreateLogStream", "DescribeLogStreams", "PutLogEvents")
    groups = stack.format_arn(
        service="logs",
        resource="log-group",
        resource_name=f"{prefix}/*",
        arn_format=ArnFormat.COLON_RESOURCE_NAME,
    )
    logging = [f"logs:{action}" for action in (*actions, "PutRetentionPolicy")]
    allow(role, "WriteLogs", logging, [groups], wild="The streams of this cluster's log groups.")
    describing = ("ec2:DescribeTags", "ec2:DescribeVolumes", "logs:DescribeLogGroups")
    unconfined = "Describing supports no resource-level permissions."
    allow(role, "DescribeNode", describing, ["*"], wild=unconfined)
    return role


def _addon(
    stack: Stack,
    name: str,
    cluster: eks.ICluster,
    *,
    configuration: Mapping[str, Any] | None = None,
    identity: tuple[str, iam.Role] | None = None,
) -> eks.CfnAddon:
    """An add-on. ``identity`` is its service account and the role that the account gets."""
    association = eks.CfnAddon.PodIdentityAssociationProperty
    return eks.CfnAddon(
        stack,
        name,
        addon_name=name,
        addon_version=VERSIONS[name],
        cluster_name=cluster.cluster_name,
        resolve_conflicts="OVERWRITE",
        configuration_values=json.dumps(configuration) if configuration else None,
        pod_identity_associations=[
            association(service_account=account, role_arn=role.role_arn)
            for account, role in ([identity] if identity else [])
        ]
        or None,
    )
