"""The embedded AWS: its process, clients for it, and the run that a rehearsal has left there."""

import contextlib
import os
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import boto3

from rehearsal import RehearsalError
from rehearsal.processes import await_line, lasting_port, running
from spectap.names import CONFIG, results_key

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
        return boto3.client(
            service,
            endpoint_url=self.url,
            region_name=self.region,
            aws_access_key_id=_KEY,
            aws_secret_access_key=_KEY,
        )


@contextlib.contextmanager
def embedded_aws(region: str, log: Path) -> Iterator[Aws]:
    """Starts a server, waits until it answers, and ends it. Raises ProcessError."""
    port = str(lasting_port())
    url, command = f"http://127.0.0.1:{port}", [sys.executable, "-m", "moto.server", "-p", port]
    with running(command, environment(url, region), log) as process:
        await_line(process, log, rf".*Running on {re.escape(url)}", START_SECONDS)
        aws = Aws(url, region, "", environment(url, region))
        yield replace(aws, account=aws.client("sts").get_caller_identity()["Account"])


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


def download_run(aws: Aws, bucket: str, run_dir: Path) -> str:
    """Downloads a run into ``run_dir``; returns the count. Raises RehearsalError without a run."""
    s3, prefix = aws.client("s3"), results_key(run_dir.name, "")
    pages = s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
    objects = [item for page in pages for item in page.get("Contents", [])]
    for item in objects:
        path = run_dir / item["Key"].removeprefix(prefix)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(s3.get_object(Bucket=bucket, Key=item["Key"])["Body"].read())
    if not (run_dir / CONFIG).is_file():
        raise RehearsalError(f"s3://{bucket}/{prefix}: no variant is complete with its baseline")
    return f"{len(objects)} files from s3://{bucket}/{prefix}"
