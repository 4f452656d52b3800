"""Accepts findings of cdk-nag, the CDK and checkov, each with its reason beside the code."""

from collections.abc import Mapping
from typing import Any, Final, cast

from aws_cdk import Acknowledgment, CfnResource, Validations
from constructs import IConstruct

OUTLIVES_ITS_STACK: Final = {
    "CKV_AWS_158": "CloudWatch Logs encrypts it. A key of ours would go with the stack, and leave "
    "unreadable what stays. A retained key cannot be re-imported."
}
"""Findings of log groups."""
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
    """Accepts checkov's findings on resources of one type, ``scope`` and below: reasons by rule.

    They become metadata of the resource, in checkov's own form.
    """
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


def managed_policy(name: str) -> str:
    """The id of the finding that a role has the AWS managed policy ``name``."""
    return f"AwsSolutions-IAM4[Policy::arn:<AWS::Partition>:iam::aws:policy/{name}]"
