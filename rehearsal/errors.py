"""What ends a rehearsal."""

from __future__ import annotations


class RehearsalError(Exception):
    """The rehearsal cannot go on, or has found something wrong. One line."""
