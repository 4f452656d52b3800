"""What the experiment's bucket has: checkpoints and graphs, by the markers that end them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from botocore.exceptions import ClientError

from charts.names import artifact_prefix, bucket_name, model_prefix
from deployment.account import in_words
from deployment.place import Place
from experiment import Experiment
from experiment.variants import variants
from spectap.names import COMPLETE

LARGEST: Final = 16 << 20
"""Bytes of an object that is read into memory: pods may write any to the bucket."""


class Store:
    """The bucket. It may be there without any stack, or not be there at all."""

    def __init__(self, place: Place) -> None:
        self.bucket = bucket_name(place.experiment, place.account)
        self._client = place.client("s3")

    def incomplete(self, prefixes: Iterable[str]) -> list[str]:
        """Those whose marker is not there yet. Raises DeploymentError."""
        return [prefix for prefix in prefixes if not self.has(f"{prefix}{COMPLETE}")]

    def has(self, key: str) -> bool:
        """Raises DeploymentError."""
        with in_words():
            try:
                self._client.head_object(Bucket=self.bucket, Key=key)
            except ClientError as error:
                if error.response["Error"]["Code"] in ("404", "NoSuchKey", "NoSuchBucket"):
                    return False
                raise
        return True

    def read(self, key: str) -> bytes | None:
        """None if there is no such object, or it is above ``LARGEST``. Raises DeploymentError."""
        with in_words():
            try:
                answer = self._client.get_object(Bucket=self.bucket, Key=key)
            except ClientError as error:
                if error.response["Error"]["Code"] in ("NoSuchKey", "NoSuchBucket"):
                    return None
                raise
            if answer["ContentLength"] > LARGEST:
                return None
            content: bytes = answer["Body"].read()
        return content

    def write(self, key: str, content: bytes) -> None:
        """Raises DeploymentError."""
        with in_words():
            self._client.put_object(Bucket=self.bucket, Key=key, Body=content)

    def keys(self, prefix: str) -> dict[str, Any]:
        """When each object below ``prefix`` was written, by key. Raises DeploymentError."""
        with in_words():
            try:
                pages = self._client.get_paginator("list_objects_v2").paginate(
                    Bucket=self.bucket, Prefix=prefix
                )
                return {
                    each["Key"]: each["LastModified"]
                    for page in pages
                    for each in page.get("Contents", [])
                }
            except ClientError as error:
                if error.response["Error"]["Code"] == "NoSuchBucket":
                    return {}
                raise


def checkpoints(experiment: Experiment) -> list[str]:
    """Where the checkpoints of all variants lie."""
    drafts = (variant.draft for variant in variants(experiment))
    models = [model for model in (experiment.models.target, *drafts) if model]
    return [*dict.fromkeys(model_prefix(model.id, model.revision) for model in models)]


def graphs(experiment: Experiment) -> list[str]:
    """Where the compiled graphs of all variants lie."""
    return [*dict.fromkeys(artifact_prefix(its.artifact) for its in variants(experiment))]
