"""The user's own files of prompts, out of the bucket that a deploy has put them into."""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

import boto3

from spectap.aws.retry import AWS_ERRORS, ONE_ATTEMPT, Sleep, error_code, explain, persist
from spectap.config import Config
from spectap.errors import RunError

_CHECKS: Final = {
    # S3 says so, too, of an object that is not there, to those who may not list.
    "AccessDenied": "make deploy uploads it, and lets the pod's role read it",
    "NoSuchKey": "make deploy uploads it",
}
_CHECK: Final = "check the bucket, the region and the pod's role"


def bring(config: Config, folder: Path, sleep: Sleep = time.sleep) -> None:
    """Writes each file that a test case names into ``folder``, by its name.

    Whoever reads it there compares it with its digest. Retries for five minutes where S3 fails.
    Raises RunError.
    """
    client = boto3.client("s3", region_name=config.region, config=ONE_ATTEMPT)
    for case in config.test_cases:
        if case.prompts is not None and case.prompts.file is not None:
            place = {"Bucket": config.prompts_bucket, "Key": case.prompts.digest}
            try:
                content = persist(partial(_get, client, place), sleep)
            except AWS_ERRORS as error:
                check = _CHECKS.get(error_code(error), _CHECK)
                where = f"prompts of {case.name}: s3://{place['Bucket']}/{place['Key']}"
                raise RunError(f"{where}: {explain(error, check)}") from None
            (folder / case.prompts.file).write_bytes(content)


def _get(client: Any, place: Mapping[str, Any]) -> bytes:
    content: bytes = client.get_object(**place)["Body"].read()
    return content
