"""An embedded AWS that notes what this process asks it, denies what it shall, and knows an account.

The server itself is moto's. What is denied or known is answered before a call leaves the process.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from botocore.client import BaseClient
from botocore.exceptions import ClientError

from rehearsal.aws import client
from tests.aws.facts import Facts

_ACTIONS = {
    "HeadBucket": "ListBucket",
    "HeadObject": "GetObject",
    "ListBuckets": "ListAllMyBuckets",
    "ListObjectVersions": "ListBucketVersions",
    "ListObjectsV2": "ListBucket",
}
"""Of S3, calls that IAM knows by another name (Service Authorization Reference)."""
_PREFIXES = {"service-quotas": "servicequotas", "stepfunctions": "states"}
"""Services likewise."""


def action(call: str) -> str:
    """What IAM calls the right to a call, e.g. ``s3:GetObject`` for ``s3:HeadObject``."""
    service, _, operation = call.partition(":")
    named = _ACTIONS.get(operation, operation) if service == "s3" else operation
    return f"{_PREFIXES.get(service, service)}:{named}"


@dataclass
class _State:
    calls: list[str] = field(default_factory=list)
    denied: frozenset[str] = frozenset()
    facts: Facts = field(default_factory=Facts)


@dataclass(frozen=True)
class Aws(client.Aws):
    """A running embedded AWS."""

    _state: _State = field(default_factory=_State)

    def calls(self) -> list[str]:
        """What was asked since ``forget_calls``, e.g. ``ec2:DescribeVpcs``, in order."""
        return [*self._state.calls]

    def forget_calls(self) -> None:
        """Begins to count anew."""
        self._state.calls.clear()

    def deny(self, *calls: str) -> None:
        """Has IAM deny these calls, e.g. ``ec2:DescribeVpcs``, and allow all others."""
        self._state.denied = frozenset(calls)

    def know(self, **facts: object) -> None:
        """Sets fields of ``tests.aws.facts.Facts``."""
        self._state.facts = self._state.facts.but(facts)

    def forget_facts(self) -> None:
        """Restores those fields."""
        self._state.facts = Facts()


@contextlib.contextmanager
def embedded_aws(region: str, log: Path) -> Iterator[Aws]:
    """Starts it, waits until it answers, and ends it. Raises ProcessError."""
    with (
        client.embedded_aws(region, log, "tests.aws.server") as aws,
        pytest.MonkeyPatch.context() as patch,
    ):
        noting = Aws(aws.url, aws.region, aws.account, aws.environment)
        _note(patch, noting._state)
        yield noting


def _note(patch: pytest.MonkeyPatch, state: _State) -> None:
    ask = BaseClient._make_api_call

    def call(caller: Any, operation: str, given: dict[str, Any]) -> Any:
        name = f"{caller.meta.service_model.service_name}:{operation}"
        state.calls.append(name)
        if name in state.denied:
            raise _denial(name, operation)
        answer = state.facts.answers.get(name)
        return answer(given) if answer else ask(caller, operation, given)

    patch.setattr(BaseClient, "_make_api_call", call)


def _denial(call: str, operation: str) -> ClientError:
    """In the words of IAM. A call by HEAD has no body to say why."""
    code = "UnauthorizedOperation" if call.startswith("ec2:") else "AccessDeniedException"
    message = (
        f"User: arn:aws:iam::123456789012:user/rehearsal is not authorized to perform: "
        f"{action(call)} because no identity-based policy allows the action"
    )
    if operation.startswith("Head"):
        code, message = "403", "Forbidden"
    return ClientError({"Error": {"Code": code, "Message": message}}, operation)
