"""A run's folder in the bucket: uploads every file that is not there yet in this form."""

from __future__ import annotations

import hashlib
import mimetypes
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

import boto3

from benchmark.aws.retry import AWS_ERRORS, ONE_ATTEMPT, Sleep, T, error_code, explain, persist
from benchmark.errors import BucketError
from benchmark.names import results_key

_CHECKS: Final = {
    "AccessDenied": "check that the pod's role may list and put objects below results/ in it",
    "NoSuchBucket": "check the configuration's bucket, and that its stack is deployed",
}
_CHECK: Final = "check the bucket, the region and the pod's role"


class Bucket:
    """The results in one bucket."""

    def __init__(self, bucket: str, region: str, sleep: Sleep = time.sleep) -> None:
        self._bucket, self._sleep = bucket, sleep
        self._client = boto3.client("s3", region_name=region, config=ONE_ATTEMPT)

    def upload(self, run_dir: Path) -> None:
        """Puts each file of the folder at ``results/<its name>/<path>``, unless it is there.

        Each file is read once, so that the object is the file as it was at one moment. Files may be
        replaced, appended to or removed meanwhile. A file may have up to 5 GB, S3's limit for one
        PutObject. Retries for five minutes where S3 fails. Raises BucketError.
        """
        there = self._persist(partial(self._digests, results_key(run_dir.name, "")))
        for path in sorted(run_dir.rglob("*")):
            data = _read(path)
            key = results_key(run_dir.name, path.relative_to(run_dir).as_posix())
            if data is not None and there.get(key) != _digest(data):
                self._persist(partial(self._put, key, data))

    def _digests(self, prefix: str) -> dict[str, str]:
        # The ETag of an object is its MD5 if it was put in one piece into a bucket with S3's own
        # encryption. Under a KMS key it is not, and every file is put again, which is only slower.
        pages = self._client.get_paginator("list_objects_v2").paginate(
            Bucket=self._bucket, Prefix=prefix
        )
        return {
            entry["Key"]: entry["ETag"].strip('"')
            for page in pages
            for entry in page.get("Contents", [])
        }

    def _put(self, key: str, data: bytes) -> None:
        # With its type, a report opens in the browser instead of being saved.
        kind, _ = mimetypes.guess_type(key)
        self._client.put_object(
            Bucket=self._bucket,
            Key=key,
            Body=data,
            ContentType=kind or "application/octet-stream",
        )

    def _persist(self, call: Callable[[], T]) -> T:
        try:
            return persist(call, self._sleep)
        except AWS_ERRORS as error:
            check = _CHECKS.get(error_code(error), _CHECK)
            raise BucketError(f"s3://{self._bucket}: {explain(error, check)}") from None


def _read(path: Path) -> bytes | None:
    """What the file contains; None for a folder, or for a file that is gone."""
    try:
        return path.read_bytes()
    except (IsADirectoryError, FileNotFoundError):
        return None
    except OSError as error:
        raise BucketError(f"{path}: cannot be read: {error.strerror}") from None


def _digest(data: bytes) -> str:
    return hashlib.md5(data, usedforsecurity=False).hexdigest()
