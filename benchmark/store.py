"""A run's folder in the bucket: what is not there yet in its present form is put there.

The second half, ``persist`` and what belongs to it, is how the benchmark calls AWS at all: for
minutes, with growing pauses, and only where another attempt can help.
"""

from __future__ import annotations

import hashlib
import itertools
import mimetypes
import random
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

import boto3
from botocore.config import Config
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    ConnectionError,
    CredentialRetrievalError,
    HTTPClientError,
)
from botocore.parsers import ResponseParserError

from benchmark.names import results_key

T = TypeVar("T")
Sleep = Callable[[float], None]

PATIENCE_SECONDS: Final = 300.0
_FIRST_PAUSE_SECONDS: Final = 0.5
_LONGEST_PAUSE_SECONDS: Final = 30.0

# The SDK's own retries are off: they last seconds where an outage lasts minutes, and they repeat
# calls that must not be repeated (see benchmark.publish).
ONE_ATTEMPT: Final = Config(
    connect_timeout=10, read_timeout=60, retries={"total_max_attempts": 1, "mode": "standard"}
)

# The call was sent, or part of it, and no answer came that can be read.
NO_ANSWER: Final = (HTTPClientError, ResponseParserError, UnicodeDecodeError)

AWS_ERRORS: Final = (BotoCoreError, ClientError, *NO_ANSWER)

_BUSY: Final = frozenset(
    {
        "BandwidthLimitExceeded",
        "LimitExceededException",
        "RequestLimitExceeded",
        "RequestThrottled",
        "RequestThrottledException",
        "RequestTimeout",
        "RequestTimeoutException",
        "SlowDown",
        "Throttling",
        "ThrottlingException",
        "ThrottledException",
        "TooManyRequestsException",
    }
)

_CHECKS: Final = {
    "AccessDenied": "check that the pod's role may list and put objects below results/ in it",
    "NoSuchBucket": "check the configuration's bucket, and that its stack is deployed",
}
_CHECK: Final = "check the bucket, the region and the pod's role"


class StoreError(Exception):
    """The bucket cannot be written to. One line: which, why, what to check."""


class Store:
    """The results in one bucket."""

    def __init__(self, bucket: str, region: str, sleep: Sleep = time.sleep) -> None:
        self._bucket, self._sleep = bucket, sleep
        self._client = boto3.client("s3", region_name=region, config=ONE_ATTEMPT)

    def upload(self, run_dir: Path) -> None:
        """Puts each file of the folder at ``results/<its name>/<path>``, unless it is there.

        Each file is read once, so that what is put there is one moment's state of it, and whole:
        one that others replace, append to or remove meanwhile does no harm. A file may have up to
        5 GB, S3's limit for one PutObject. Goes on for five minutes where S3 fails. Raises
        StoreError.
        """
        there = self._persist(partial(self._digests, results_key(run_dir.name, "")))
        for path in sorted(run_dir.rglob("*")):
            data = _read(path)
            key = results_key(run_dir.name, path.relative_to(run_dir).as_posix())
            if data is not None and there.get(key) != _digest(data):
                self._persist(partial(self._put, key, data))

    def _digests(self, prefix: str) -> dict[str, str]:
        # An object put in one piece into a bucket with S3's own encryption has its MD5 for an
        # ETag. Under a KMS key it has not, and every file is put again, which is only slower.
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
            raise StoreError(f"s3://{self._bucket}: {explain(error, check)}") from None


def _read(path: Path) -> bytes | None:
    """What the file contains; None for a folder, or a file that is gone by now."""
    try:
        return path.read_bytes()
    except (IsADirectoryError, FileNotFoundError):
        return None
    except OSError as error:
        raise StoreError(f"{path}: cannot be read: {error.strerror}") from None


def _digest(data: bytes) -> str:
    return hashlib.md5(data, usedforsecurity=False).hexdigest()


def persist(call: Callable[[], T], sleep: Sleep, patience_seconds: float = PATIENCE_SECONDS) -> T:
    """Calls until it succeeds. Raises the error that another attempt cannot help, or the last.

    The patience covers the pauses and the attempts that failed.
    """
    spent = 0.0
    for pause in _pauses():
        began = time.monotonic()
        try:
            return call()
        except AWS_ERRORS as error:
            spent += time.monotonic() - began + pause
            if not is_transient(error) or spent > patience_seconds:
                raise
        sleep(pause)
    raise AssertionError("the pauses never end")


def _pauses() -> Iterator[float]:
    # Jitter, lest all who were refused at the same moment come back at the same moment.
    for attempt in itertools.count():
        pause = min(_LONGEST_PAUSE_SECONDS, _FIRST_PAUSE_SECONDS * 2 ** min(attempt, 16))
        yield pause * random.uniform(0.5, 1)


def is_transient(error: Exception) -> bool:
    """Whether the same call may succeed later: overload, a fault of the service, the network."""
    if isinstance(error, ClientError):
        status = int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
        return status >= 500 or status == 429 or error_code(error) in _BUSY
    return isinstance(error, (ConnectionError, CredentialRetrievalError, *NO_ANSWER))


def error_code(error: Exception) -> str:
    """AWS's name for it, such as ``AccessDenied``; empty where no answer came from AWS."""
    response: dict[str, Any] = error.response if isinstance(error, ClientError) else {}
    return str(response.get("Error", {}).get("Code", ""))


def explain(error: Exception, check: str) -> str:
    """One line: the reason, and ``check`` if it would not have gone away by itself."""
    reason = " ".join(str(error).split()).rstrip(".")
    if is_transient(error):
        return f"failing for {PATIENCE_SECONDS / 60:.0f} minutes: {reason}"
    return f"{reason}; {check}"
