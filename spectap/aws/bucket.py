"""A run's folder in the bucket: what is not there yet in this form goes up, and all comes back."""

from __future__ import annotations

import hashlib
import mimetypes
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Final

import boto3

from spectap.aws.retry import AWS_ERRORS, ONE_ATTEMPT, Sleep, T, error_code, explain, persist
from spectap.errors import BucketError
from spectap.names import COMPLETE, LEDGER, PROGRESS, VARIANTS, results_key

_CHECKS: Final = {
    "AccessDenied": "check that the pod's role may list, get and put objects below results/ in it",
    "NoSuchBucket": "check the configuration's bucket, and that its stack is deployed",
}
_CHECK: Final = "check the bucket, the region and the pod's role"

_AT_ONCE: Final = 8
"""Objects that are fetched at the same time: most are small, so that it is the way that counts. The
SDK keeps ten connections (botocore, ``Config.max_pool_connections``)."""


class Bucket:
    """The results in one bucket."""

    def __init__(self, bucket: str, region: str, sleep: Sleep = time.sleep) -> None:
        self._bucket, self._sleep = bucket, sleep
        self._client = boto3.client("s3", region_name=region, config=ONE_ATTEMPT)

    def upload(self, run_dir: Path, run_id: str | None = None) -> None:
        """Puts each file of the folder at ``results/<run id>/<path>``, unless it is there.

        ``run_id`` is the folder's name unless it is given. Folders of variants are left out: each
        is a run of its own. The ledger goes
        first, because attempts are numbered by it; what says that they are complete goes last. Each
        file is read once, so that the object is the file as it was at one moment. Files may be
        replaced, appended to or removed meanwhile. A file may have up to 5 GB, S3's limit for one
        PutObject. Retries for five minutes where S3 fails.
        Raises BucketError.
        """
        run_id = run_id or run_dir.name
        there = self._digests(results_key(run_id, ""))
        for path in sorted(run_dir.rglob("*"), key=_order):
            name = path.relative_to(run_dir)
            key = results_key(run_id, name.as_posix())
            data = None if name.parts[0] == VARIANTS else _read(path)
            if data is not None and there.get(key) != _digest(data):
                self._persist(partial(self._put, key, data))

    def fetch(self, run_id: str, run_dir: Path) -> None:
        """Brings back each file of a run that the folder does not have.

        A file is there whole or not at all. Retries for five minutes where S3 fails. Raises
        BucketError.
        """
        prefix = results_key(run_id, "")
        missing = {
            key: path
            for key in self._digests(prefix)
            if (path := _below(run_dir, key.removeprefix(prefix))) and not path.exists()
        }
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            # The list waits for all, and raises what the first that failed has raised.
            list(pool.map(self._bring, missing, missing.values()))

    def complete(self, run_id: str) -> set[str]:
        """The variants of a run whose folders are whole. Raises BucketError."""
        prefix = results_key(run_id, f"{VARIANTS}/")
        names = (key.removeprefix(prefix).split("/") for key in self._digests(prefix))
        return {name[0] for name in names if name[1:] == [COMPLETE]}

    def _bring(self, key: str, path: Path) -> None:
        data = self._persist(partial(self._get, key))
        draft = path.with_name(f"{path.name}.draft")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            draft.write_bytes(data)
            draft.replace(path)
        except OSError as error:
            raise BucketError(f"{path}: cannot be written: {error.strerror}") from None

    def _digests(self, prefix: str) -> dict[str, str]:
        """The MD5 of each object, as far as S3 tells it, by key."""
        return self._persist(partial(self._listed, prefix))

    def _listed(self, prefix: str) -> dict[str, str]:
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

    def _get(self, key: str) -> bytes:
        content: bytes = self._client.get_object(Bucket=self._bucket, Key=key)["Body"].read()
        return content

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


def _order(path: Path) -> tuple[int, Path]:
    """Whoever goes on after an upload that was cut off must not take half a turn for a whole one,
    nor give two attempts the same number."""
    return {LEDGER: 0, PROGRESS: 2, COMPLETE: 3}.get(path.name, 1), path


def _below(folder: Path, name: str) -> Path | None:
    """The file of that name; None for one that would lie elsewhere, or that is a folder's mark."""
    # Whoever may write to a bucket names its keys.
    return None if {*name.split("/")} & {"", ".", ".."} else folder / name


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
