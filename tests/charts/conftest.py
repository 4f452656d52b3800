"""An embedded S3, and the AWS CLI."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import boto3
import pytest
from moto.server import ThreadedMotoServer

from tests.charts import aws_cli

BUCKET: Final = "models"


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    """Address of an embedded S3."""
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture(scope="session")
def tools() -> Iterator[str]:
    """A path on which the AWS CLI comes first, and then this Python."""
    with TemporaryDirectory() as folder, aws_cli.installed(Path(folder)) as programs:
        yield os.pathsep.join([str(programs), str(Path(sys.executable).parent), os.environ["PATH"]])


@pytest.fixture
def environment(endpoint: str, tools: str, tmp_path: Path) -> dict[str, str]:
    """What a pod of the preparation finds in its environment."""
    return {
        "PATH": tools,
        "HOME": str(tmp_path),
        "BUCKET": BUCKET,
        "AWS_REGION": "us-east-1",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": "testing",
        "AWS_SECRET_ACCESS_KEY": "testing",
        "AWS_ENDPOINT_URL": endpoint,
        "POLL_SECONDS": "0.1",
    }


@pytest.fixture
def store(environment: dict[str, str]) -> Iterator[Any]:
    """A client of the embedded S3 with an empty bucket."""
    client = boto3.client(
        "s3",
        endpoint_url=environment["AWS_ENDPOINT_URL"],
        region_name="us-east-1",
        aws_access_key_id="testing",
        aws_secret_access_key="testing",
    )
    client.create_bucket(Bucket=BUCKET)
    yield client
    for key in keys(client):
        client.delete_object(Bucket=BUCKET, Key=key)
    client.delete_bucket(Bucket=BUCKET)


def keys(store: Any) -> list[str]:
    """The keys of all objects in the bucket, in their order."""
    return [entry["Key"] for entry in store.list_objects_v2(Bucket=BUCKET).get("Contents", [])]
