"""The scripts of pods, run for real with the AWS CLI against an embedded S3."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import boto3
import pytest
from moto.server import ThreadedMotoServer

from tests.charts import aws_cli

BUCKET: Final = "models"
SCRIPTS: Final = Path(__file__).parents[2] / "charts" / "scripts"


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
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


def client(service: str, environment: dict[str, str]) -> Any:
    return boto3.client(
        service,
        endpoint_url=environment["AWS_ENDPOINT_URL"],
        region_name=environment["AWS_REGION"],
        aws_access_key_id=environment["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=environment["AWS_SECRET_ACCESS_KEY"],
    )


@pytest.fixture
def store(environment: dict[str, str]) -> Iterator[Any]:
    s3 = client("s3", environment)
    s3.create_bucket(Bucket=BUCKET)
    yield s3
    for key in keys(s3):
        s3.delete_object(Bucket=BUCKET, Key=key)
    s3.delete_bucket(Bucket=BUCKET)


def keys(store: Any) -> list[str]:
    return [entry["Key"] for entry in store.list_objects_v2(Bucket=BUCKET).get("Contents", [])]


def complete(store: Any, prefix: str) -> None:
    store.put_object(Bucket=BUCKET, Key=f"{prefix}_COMPLETE", Body=b"")


def run(
    environment: dict[str, str], script: str, *arguments: str, status: int = 0
) -> subprocess.CompletedProcess[str]:
    """Runs a script to its end, which must have this status."""
    words = command(script, *arguments)
    result = subprocess.run(
        words, env=environment, capture_output=True, text=True, check=False, timeout=120
    )
    assert result.returncode == status, result.stderr
    return result


@contextmanager
def running(
    environment: dict[str, str], script: str, *arguments: str
) -> Iterator[subprocess.Popen[str]]:
    """A script that waits for something; killed at the end, if it still does."""
    with subprocess.Popen(
        command(script, *arguments), env=environment, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def command(script: str, *arguments: str) -> list[str]:
    interpreter = "bash" if script.endswith(".sh") else sys.executable
    return [interpreter, str(SCRIPTS / script), *arguments]
