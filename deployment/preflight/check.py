"""What a check of the preflight is: what it asks, and what it says of each answer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from deployment.account import Denied, Deployment, DeploymentError, aws_errors

Answer = tuple[str, Mapping[str, object]]
"""A key of ``Check.says``, and what its text has in braces."""


class Status(StrEnum):
    """Whether a deploy may go on."""

    OK = "ok"
    WARNING = "warning"
    """It may, but this should be known."""
    REFUSED = "refused"
    """It would fail, perhaps hours later."""


class Says(NamedTuple):
    """What is said of an answer. In braces: its own facts, and the experiment's."""

    status: Status
    text: str
    remedy: str = ""


class Finding(NamedTuple):
    """A row of the preflight."""

    status: Status
    subject: str
    text: str
    remedy: str


@dataclass(frozen=True)
class Check:
    """A question to the account, to this machine or to the file."""

    subject: str
    """What is asked about. The facts of an answer may have another."""
    ask: Callable[[Deployment], Iterable[Answer]]
    says: Mapping[str, Says]

    def findings(self, deployment: Deployment) -> list[Finding]:
        """What is said of all answers; raises nothing."""
        try:
            with aws_errors():
                return [self._finding(deployment, *answer) for answer in self.ask(deployment)]
        except Denied as error:
            text = f"not known: these credentials may not call {error.action}"
            return [self._unknown(text, f"allow {error.action}, which only reads")]
        except DeploymentError as error:
            return [self._unknown(f"not known: {error}", "repair this, and ask again")]

    def _finding(self, deployment: Deployment, answer: str, facts: Mapping[str, object]) -> Finding:
        known = {
            "subject": self.subject,
            "account": deployment.account,
            "file": deployment.file,
            "name": deployment.name,
            "region": deployment.region,
            **facts,
        }
        status, text, remedy = self.says[answer]
        return Finding(status, str(known["subject"]), text.format(**known), remedy.format(**known))

    def _unknown(self, text: str, remedy: str) -> Finding:
        return Finding(Status.WARNING, self.subject, text, remedy)


def ok(text: str) -> Says:
    """Nothing to do."""
    return Says(Status.OK, text)


def warning(text: str, remedy: str) -> Says:
    """May go on."""
    return Says(Status.WARNING, text, remedy)


def refused(text: str, remedy: str) -> Says:
    """May not."""
    return Says(Status.REFUSED, text, remedy)
