"""Findings of cdk-nag and the CDK that stand, each with its reason beside the code."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from aws_cdk import Acknowledgment, Validations
from constructs import IConstruct

HOLDS_PROMPTS: Final = {
    "CloudFormation-Validate::E1029": "A prompt may say ${AWS::Region}; nobody fills that in."
}


def acknowledge(scope: IConstruct, reasons: Mapping[str, str]) -> None:
    """Accept findings on ``scope`` and below: rule, with its finding in brackets, to reason."""
    Validations.of(scope).acknowledge(
        *(Acknowledgment(id=rule, reason=reason) for rule, reason in reasons.items())
    )


def managed_policy(name: str) -> str:
    """The finding that a role has the AWS managed policy ``name``."""
    return f"AwsSolutions-IAM4[Policy::arn:<AWS::Partition>:iam::aws:policy/{name}]"
