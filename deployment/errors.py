"""What can go wrong between here and AWS."""

from __future__ import annotations


class DeploymentError(Exception):
    """The account does not let it be done. ``str()`` is the one line that a user is shown."""
