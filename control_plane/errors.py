"""What keeps the control plane from running."""

from __future__ import annotations


class ControlPlaneError(Exception):
    """The control plane cannot be had, does not start, or has ended. One line."""


class NoPrograms(ControlPlaneError):
    """There are no programs, and nothing to build them with."""
