"""What can go wrong with an account."""

from __future__ import annotations


class DeploymentError(Exception):
    """The command cannot be carried out in this account. One line."""
