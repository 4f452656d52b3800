"""The embedded AWS in a process of its own, and what a test may do to it."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import urllib3

from rehearsal.aws import client
from rehearsal.aws.client import environment

__all__ = ["Aws", "embedded_aws", "environment"]

_SECONDS: Final = 30.0


@dataclass(frozen=True)
class Aws(client.Aws):
    """A running embedded AWS."""

    def calls(self) -> list[str]:
        """What was asked since ``forget_calls``, e.g. ``ec2:DescribeVpcs``, in order."""
        calls: list[str] = json.loads(self._own("GET", "calls"))
        return calls

    def forget_calls(self) -> None:
        """Begins to count anew."""
        self._own("DELETE", "calls")

    def deny(self, *calls: str) -> None:
        """Has IAM deny these calls, e.g. ``ec2:DescribeVpcs``, and allow all others."""
        self._own("PUT", "denied", calls)

    def know(self, **facts: object) -> None:
        """Sets fields of ``tests.aws.facts.Facts``."""
        self._own("PATCH", "facts", facts)

    def forget_facts(self) -> None:
        """Restores those fields."""
        self._own("DELETE", "facts")

    def _own(self, method: str, path: str, body: object = None) -> bytes:
        url = f"{self.url}/rehearsal/{path}"
        return urllib3.request(method, url, json=body, timeout=_SECONDS).data


@contextlib.contextmanager
def embedded_aws(region: str, log: Path) -> Iterator[Aws]:
    """Starts it, waits until it answers, and ends it. Raises ProcessError."""
    with client.embedded_aws(region, log, "tests.aws.server") as aws:
        yield Aws(aws.url, aws.region, aws.account, aws.environment)
