"""The embedded AWS, which is moto's server in a process of its own, and clients for it."""

import contextlib
import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import boto3

from rehearsal.processes import await_line, running

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


@contextlib.contextmanager
def embedded_aws(region: str, log: Path) -> Iterator[Aws]:
    """Starts a server, waits until it answers, and ends it. Raises ProcessError."""
    command = [sys.executable, "-m", "rehearsal.aws.server"]
    with running(command, environment("http://127.0.0.1", region), log) as process:
        url = await_line(process, log, r"http://127\.0\.0\.1:\d+", START_SECONDS)
        account = _client(url, region, "sts").get_caller_identity()["Account"]
        yield Aws(url, region, account, environment(url, region))


def environment(url: str, region: str) -> dict[str, str]:
    """This process's environment, with ``url`` in place of AWS."""
    # No profile and no proxy of this machine may lead to a real account.
    variables = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("AWS_") and not name.lower().endswith("_proxy")
    }
    return variables | {
        "AWS_ENDPOINT_URL": url,
        "AWS_REGION": region,
        "AWS_DEFAULT_REGION": region,
        "AWS_ACCESS_KEY_ID": _KEY,
        "AWS_SECRET_ACCESS_KEY": _KEY,
        "AWS_CONFIG_FILE": os.devnull,
        "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
        "AWS_EC2_METADATA_DISABLED": "true",
    }


def _client(url: str, region: str, service: str) -> Any:
    return boto3.client(
        service,
        endpoint_url=url,
        region_name=region,
        aws_access_key_id=_KEY,
        aws_secret_access_key=_KEY,
    )
