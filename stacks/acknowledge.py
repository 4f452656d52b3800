"""Findings of cdk-nag's AwsSolutions pack that stand, each with its reason beside the code."""

from __future__ import annotations

from collections.abc import Mapping

from aws_cdk import Acknowledgment, Validations
from constructs import IConstruct


def acknowledge(scope: IConstruct, reasons: Mapping[str, str]) -> None:
    """Accept findings on ``scope`` and below: rule, with its finding in brackets, to reason."""
    Validations.of(scope).acknowledge(
        *(Acknowledgment(id=rule, reason=reason) for rule, reason in reasons.items())
    )


def managed_policy(name: str) -> str:
    """The finding that a role has the AWS managed policy ``name``."""
    return f"AwsSolutions-IAM4[Policy::arn:<AWS::Partition>:iam::aws:policy/{name}]"
