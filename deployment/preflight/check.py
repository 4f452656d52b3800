"""What a check of the preflight gives: a row that says what is so, and what to do about it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from enum import StrEnum
from typing import NamedTuple

from deployment.account import Denied, Deployment, DeploymentError, aws_errors


class Status(StrEnum):
    """Whether a deploy may go on."""

    OK = "ok"
    WARNING = "warning"
    """It may, but this should be known."""
    REFUSED = "refused"
    """It would fail, perhaps hours later."""


class Finding(NamedTuple):
    """A row of the preflight. Without a subject it has the check's."""

    status: Status
    text: str
    remedy: str = ""
    subject: str = ""


Check = Callable[[Deployment], Iterable[Finding]]
"""A question to the account, to this machine or to the file."""


ok = functools.partial(Finding, Status.OK)
warning = functools.partial(Finding, Status.WARNING)
refused = functools.partial(Finding, Status.REFUSED)


def findings(subject: str, check: Check, deployment: Deployment) -> list[Finding]:
    """All rows of a check; raises nothing."""
    try:
        with aws_errors():
            rows = [*check(deployment)]
    except Denied as error:
        text = f"not known: these credentials may not call {error.action}"
        rows = [warning(text, f"allow {error.action}, which only reads")]
    except DeploymentError as error:
        rows = [warning(f"not known: {error}", "repair this, and ask again")]
    return [row if row.subject else row._replace(subject=subject) for row in rows]
