"""What a check of the preflight says."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Status(StrEnum):
    """Whether a deploy may go on."""

    OK = "ok"
    WARNING = "warning"
    REFUSED = "refused"


@dataclass(frozen=True)
class Finding:
    """A row of the table."""

    status: Status
    subject: str
    """What was asked about."""
    found: str
    remedy: str = ""
    """What to do, unless all is well."""


def ok(subject: str, found: str) -> Finding:
    """Nothing to do."""
    return Finding(Status.OK, subject, found)


def warning(subject: str, found: str, remedy: str) -> Finding:
    """May go on, but should be known."""
    return Finding(Status.WARNING, subject, found, remedy)


def refused(subject: str, found: str, remedy: str) -> Finding:
    """Would fail, perhaps hours later."""
    return Finding(Status.REFUSED, subject, found, remedy)
