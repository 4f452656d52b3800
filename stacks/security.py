"""Roles, keys and log groups, and accepted findings of cdk-nag, the CDK and checkov."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from aws_cdk import Acknowledgment, CfnResource, RemovalPolicy, Stack, Token, Validations
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_logs as logs
from constructs import Construct, IConstruct

_OUTLIVES_ITS_STACK: Final = {
    "CKV_AWS_158": "CloudWatch Logs encrypts it. A key of ours would go with the stack, and leave "
    "unreadable what stays. A retained key cannot be re-imported."
}
"""Findings of log groups with a name."""
HANDLER: Final = {
    "CKV_AWS_115": "CloudFormation calls it, a few times at a deploy. Reserved concurrency would "
    "be taken from the account, which may have ten in all.",
    "CKV_AWS_116": "CloudFormation waits for its answer, and reports a failure itself.",
    "CKV_AWS_173": "Its variables are names of resources, which Lambda encrypts, too.",
}
"""Findings of the functions by which the CDK makes what CloudFormation cannot."""


def acknowledge(scope: IConstruct, reasons: Mapping[str, str]) -> None:
    """Accepts findings on ``scope`` and below: reasons by rule, with the finding in brackets."""
    Validations.of(scope).acknowledge(
        *(Acknowledgment(id=rule, reason=reason) for rule, reason in reasons.items())
    )


def skip(scope: IConstruct, kind: str, reasons: Mapping[str, str]) -> None:
    """Accepts checkov's findings on resources of ``kind`` below ``scope``, as metadata, by rule."""
    resources = [
        cast(CfnResource, construct)
        for construct in scope.node.find_all()
        if CfnResource.is_cfn_resource(construct)
    ]
    skipped: list[Any] = [{"id": rule, "comment": reason} for rule, reason in reasons.items()]
    matching = [resource for resource in resources if resource.cfn_resource_type == kind]
    assert matching, f"{scope.node.path} has no {kind}"
    for resource in matching:
        resource.add_metadata("checkov", {"skip": skipped})


def key(scope: Construct, construct_id: str, description: str) -> kms.Key:
    """A key that rotates, and goes with its stack."""
    destroyed = RemovalPolicy.DESTROY
    settings: dict[str, Any] = {"enable_key_rotation": True, "removal_policy": destroyed}
    return kms.Key(scope, construct_id, description=description, **settings)


def log_group(
    scope: Construct, construct_id: str, name: str | None = None, **settings: Any
) -> logs.LogGroup:
    """A log group that keeps a month. With a ``name`` it outlives its stack, and can be imported.

    EKS and its agents still write while they are removed. They would make their group anew, and
    the next deploy, which imports only what was retained, would fail on it.
    """
    fate = RemovalPolicy.RETAIN if name else RemovalPolicy.DESTROY
    settings |= {"retention": logs.RetentionDays.ONE_MONTH, "removal_policy": fate}
    group = logs.LogGroup(scope, construct_id, log_group_name=name, **settings)
    if name:
        skip(group, "AWS::Logs::LogGroup", _OUTLIVES_ITS_STACK)
    return group


def managed_policy(name: str) -> str:
    """The id of the finding that a role has the AWS managed policy ``name``."""
    return f"AwsSolutions-IAM4[Policy::arn:<AWS::Partition>:iam::aws:policy/{name}]"


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
    *,
    wild: str = "",
) -> None:
    """Adds a statement to the policy of ``role``; ``wild`` is the reason for names with a ``*``."""
    role.add_to_policy(
        iam.PolicyStatement(
            sid=sid, actions=[*actions], resources=[*resources], conditions=conditions
        )
    )
    account = Stack.of(role).account
    named = "<AWS::AccountId>" if Token.is_unresolved(account) else account
    wildcards = [each.replace(account, named) for each in resources if wild and "*" in each]
    acknowledge(role, {f"AwsSolutions-IAM5[Resource::{each}]": wild for each in wildcards})
