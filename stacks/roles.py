"""Roles of pods and of nodes."""

from collections.abc import Mapping, Sequence
from typing import Any

from aws_cdk import Stack
from aws_cdk import aws_iam as iam
from constructs import Construct

from stacks.acknowledge import acknowledge, managed_policy


def pod_identity_principal(
    scope: Construct, cluster: str, namespace: str, service_account: str
) -> iam.IPrincipal:
    """EKS Pod Identity, for the pods of one service account of one cluster of this account.

    ``cluster`` is a literal name, because the stack that has the role may not know the cluster. EKS
    sets the tags itself (EKS User Guide, "Create IAM role with trust policy required by EKS Pod
    Identity").
    """
    arn = Stack.of(scope).format_arn(service="eks", resource="cluster", resource_name=cluster)
    tags = {
        "aws:RequestTag/eks-cluster-arn": arn,
        "aws:RequestTag/kubernetes-namespace": namespace,
        "aws:RequestTag/kubernetes-service-account": service_account,
    }
    pods = iam.ServicePrincipal("pods.eks.amazonaws.com", conditions={"StringEquals": tags})
    return iam.SessionTagsPrincipal(pods)


def node_role(scope: Construct, construct_id: str) -> iam.Role:
    """A role for nodes, without AmazonEKS_CNI_Policy: the CNI gets that by Pod Identity."""
    policies = ("AmazonEKSWorkerNodePolicy", "AmazonEC2ContainerRegistryPullOnly")
    role = iam.Role(
        scope,
        construct_id,
        assumed_by=iam.ServicePrincipal("ec2.amazonaws.com"),
        managed_policies=[iam.ManagedPolicy.from_aws_managed_policy_name(p) for p in policies],
    )
    reason = "EKS requires it of a node, and AWS keeps it current."
    acknowledge(role, {managed_policy(policy): reason for policy in policies})
    return role


def allow(
    role: iam.Role,
    sid: str,
    actions: Sequence[str],
    resources: Sequence[str],
    conditions: Mapping[str, Any] | None = None,
) -> None:
    """Adds a statement to the policy of ``role``."""
    role.add_to_policy(
        iam.PolicyStatement(
            sid=sid, actions=[*actions], resources=[*resources], conditions=conditions
        )
    )
