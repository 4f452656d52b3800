"""The result of a preflight check: a row that says what is so, and what to do about it."""

import functools
from collections.abc import Callable, Iterable
from enum import StrEnum
from typing import NamedTuple

from operations.account import Deployment


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
