"""Accepts findings of cdk-nag and the CDK, each with its reason beside the code."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from aws_cdk import Acknowledgment, Validations
from constructs import IConstruct

HOLDS_PROMPTS: Final = {
    "CloudFormation-Validate::E1029": "A prompt may contain ${AWS::Region} as plain text."
}


def acknowledge(scope: IConstruct, reasons: Mapping[str, str]) -> None:
    """Accepts findings on ``scope`` and below: reasons by rule, with the finding in brackets."""
    Validations.of(scope).acknowledge(
        *(Acknowledgment(id=rule, reason=reason) for rule, reason in reasons.items())
    )


def managed_policy(name: str) -> str:
    """The id of the finding that a role has the AWS managed policy ``name``."""
    return f"AwsSolutions-IAM4[Policy::arn:<AWS::Partition>:iam::aws:policy/{name}]"
