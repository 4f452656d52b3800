"""What can go wrong with an account."""

from __future__ import annotations


class DeploymentError(Exception):
    """The command cannot be carried out in this account. One line."""


class Denied(DeploymentError):
    """The credentials may not make a call."""

    def __init__(self, action: str) -> None:
        super().__init__(f"AWS: these credentials may not call {action}")
        self.action = action
        """As IAM names it, e.g. ``ec2:DescribeInstances``."""
