"""An embedded AWS in a process of its own, and clients for it."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import sys
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import boto3

from rehearsal.process.processes import await_line, running

START_SECONDS: Final = 30.0

_KEY: Final = "rehearsal"


@dataclass(frozen=True)
class Aws:
    """A running embedded AWS."""

    url: str
    region: str
    account: str
    environment: Mapping[str, str]
    """Variables for processes that shall reach it, and no other AWS."""

    def client(self, service: str) -> Any:
        """A boto3 client, whatever the environment of this process says."""
        return _client(self.url, self.region, service)

    def calls(self, key: str | None = None) -> list[str]:
        """What was asked since ``forget_calls``, e.g. ``ec2:DescribeVpcs``, in order.

        With ``key`` only what was signed with this access key.
        """
        path = "calls" if key is None else f"calls?{urllib.parse.urlencode({'key': key})}"
        found: list[str] = json.loads(self._own("GET", path))
        return found

    def forget_calls(self) -> None:
        """Begins to count anew."""
        self._own("DELETE", "calls")

    def deny(self, *calls: str) -> None:
        """Has IAM deny these calls, e.g. ``ec2:DescribeVpcs``, and allow all others."""
        self._own("PUT", "denied", calls)

    def know(self, **facts: object) -> None:
        """Sets fields of ``rehearsal.aws.facts.Facts``."""
        self._own("PATCH", "facts", facts)

    def sizes(self) -> list[dict[str, Any]]:
        """Every node group that ever was, with the sizes that it was told to have over time."""
        found: list[dict[str, Any]] = json.loads(self._own("GET", "sizes"))
        return found

    def forget_facts(self) -> None:
        """Restores those fields."""
        self._own("DELETE", "facts")

    def _own(self, method: str, path: str, body: object = None) -> bytes:
        request = urllib.request.Request(
            f"{self.url}/rehearsal/{path}",
            json.dumps(body).encode(),
            {"Content-Type": "application/json"},
            method=method,
        )
        # No proxy of this machine: the server is on it.
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(request, timeout=START_SECONDS) as answer:
            content: bytes = answer.read()
        return content


@contextlib.contextmanager
def embedded_aws(
    region: str, log: Path, variables: Mapping[str, str] | None = None
) -> Iterator[Aws]:
    """Starts it, waits until it answers, and ends it. Raises ProcessError.

    ``variables`` are its own, beside those of this process's environment.
    """
    command = [sys.executable, "-m", "rehearsal.aws.server"]
    own = environment("http://localhost", region) | dict(variables or {})
    with running(command, own, log) as process:
        url = await_line(process, log, r"http://localhost:\d+", START_SECONDS)
        account = _client(url, region, "sts").get_caller_identity()["Account"]
        yield Aws(url, region, account, environment(url, region))


def environment(url: str, region: str) -> dict[str, str]:
    """This process's environment, with ``url`` in place of AWS."""
    # No profile and no proxy of this machine may lead to a real account.
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("AWS_") and not name.lower().endswith("_proxy")
    }
    return kept | {
        "AWS_ENDPOINT_URL": url,
        "AWS_REGION": region,
        "AWS_DEFAULT_REGION": region,
        "AWS_ACCESS_KEY_ID": _KEY,
        "AWS_SECRET_ACCESS_KEY": _KEY,
        "AWS_CONFIG_FILE": os.devnull,
        "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
        "AWS_EC2_METADATA_DISABLED": "true",
    }


@functools.cache  # a new one would read the services' descriptions again
def _session() -> boto3.Session:
    return boto3.Session()


def _client(url: str, region: str, service: str) -> Any:
    return _session().client(
        service,
        endpoint_url=url,
        region_name=region,
        aws_access_key_id=_KEY,
        aws_secret_access_key=_KEY,
    )
