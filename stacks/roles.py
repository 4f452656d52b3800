"""Roles of pods and of nodes."""

from __future__ import annotations

from aws_cdk import aws_iam as iam
from constructs import Construct

from stacks.acknowledge import acknowledge, managed_policy


def pod_identity_principal() -> iam.IPrincipal:
    """The principal that a role must trust so that EKS Pod Identity can give it to a pod."""
    return iam.SessionTagsPrincipal(iam.ServicePrincipal("pods.eks.amazonaws.com"))


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
