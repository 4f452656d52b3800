"""What ends a rehearsal early."""

from __future__ import annotations


class RehearsalError(Exception):
    """The rehearsal cannot continue, or a check failed. One line."""
