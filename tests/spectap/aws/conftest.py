"""The embedded AWS of these tests, one server a file, and a clock."""

from __future__ import annotations

from collections.abc import Iterator

import boto3
import pytest

from tests.spectap.aws.embedded import BUCKET, REGION, Aws, Clock, serving


@pytest.fixture(scope="module")
def server() -> Iterator[Aws]:
    aws = Aws()
    yield aws
    aws.stop()


@pytest.fixture
def aws(server: Aws, monkeypatch: pytest.MonkeyPatch) -> Iterator[Aws]:
    with serving(server, monkeypatch):
        yield server


@pytest.fixture
def store(aws: Aws) -> Aws:
    """With the bucket, and nothing asked yet."""
    boto3.client("s3", region_name=REGION).create_bucket(
        Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": REGION}
    )
    aws.behave()
    return aws


@pytest.fixture
def clock() -> Clock:
    return Clock()
