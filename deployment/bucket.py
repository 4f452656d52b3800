"""The experiment's bucket: checkpoints and graphs, by the markers that complete them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from botocore.exceptions import ClientError

from charts.names import artifact_prefix, bucket_name, model_prefix
from deployment.account import Deployment, aws_errors
from experiment import Experiment
from experiment.variants import variants
from spectap.names import COMPLETE

LARGEST: Final = 16 << 20
"""Bytes of an object that is read into memory: pods may write any to the bucket."""

_MISSING: Final = ("404", "NoSuchKey", "NoSuchBucket")


class Bucket:
    """It may exist without any stack, or not at all."""

    def __init__(self, deployment: Deployment) -> None:
        self.name = bucket_name(deployment.experiment, deployment.account)
        self._client = deployment.client("s3")

    def incomplete(self, prefixes: Iterable[str]) -> list[str]:
        """Those that have no marker yet. Raises DeploymentError."""
        return [prefix for prefix in prefixes if not self.has(f"{prefix}{COMPLETE}")]

    def has(self, key: str) -> bool:
        """Raises DeploymentError."""
        return self._ask(self._client.head_object, Key=key) is not None

    def read(self, key: str) -> bytes | None:
        """None if there is no such object, or it is above ``LARGEST``. Raises DeploymentError."""
        answer = self._ask(self._client.get_object, Key=key)
        if answer is None or answer["ContentLength"] > LARGEST:
            return None
        with aws_errors():
            content: bytes = answer["Body"].read()
        return content

    def write(self, key: str, content: bytes) -> None:
        """Raises DeploymentError."""
        with aws_errors():
            self._client.put_object(Bucket=self.name, Key=key, Body=content)

    def entries(self, prefix: str) -> list[dict[str, Any]]:
        """The objects below ``prefix``, as S3 lists them. Raises DeploymentError."""
        pages = self._client.get_paginator("list_objects_v2")
        listed = self._ask(lambda **asked: [*pages.paginate(**asked)], Prefix=prefix) or []
        return [entry for page in listed for entry in page.get("Contents", [])]

    def _ask(self, call: Any, **arguments: str) -> Any:
        """What S3 answers; None if it has no such object or bucket."""
        with aws_errors():
            try:
                return call(Bucket=self.name, **arguments)
            except ClientError as error:
                if error.response["Error"]["Code"] in _MISSING:
                    return None
                raise


def checkpoints(experiment: Experiment) -> list[str]:
    """Prefixes of the checkpoints of all variants."""
    drafts = (variant.draft for variant in variants(experiment))
    models = [model for model in (experiment.models.target, *drafts) if model]
    return [*dict.fromkeys(model_prefix(model.id, model.revision) for model in models)]


def graphs(experiment: Experiment) -> list[str]:
    """Prefixes of the compiled graphs of all variants."""
    artifacts = (variant.artifact for variant in variants(experiment))
    return [*dict.fromkeys(artifact_prefix(artifact) for artifact in artifacts)]
