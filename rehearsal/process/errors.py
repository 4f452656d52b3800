"""What goes wrong with a process."""

from __future__ import annotations


class ProcessError(Exception):
    """A process did not start, failed, or took too long. One line."""
