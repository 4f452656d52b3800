"""Keeps a run in S3 and brings it from there: its folder, prompt files."""

import hashlib
import mimetypes
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

from spectap.aws.calls import Service, Sleep
from spectap.errors import RunError, ShippingError
from spectap.inputs.config import Config, with_lines
from spectap.names import (
    COMPLETE,
    LEDGER,
    PROGRESS,
    VARIANTS,
    is_path,
    results_key,
)
from spectap.records.journal import write_whole

_CHECK: Final = "check the bucket, the region and the pod's role"
_RESULT_CHECKS: Final = {
    "AccessDenied": "check that the pod's role may list, get and put objects below results/ in it",
    "NoSuchBucket": "check the configuration's bucket, and that its stack is deployed",
    "": _CHECK,
}
_PROMPT_CHECKS: Final = {
    # S3 says so, too, of an object that is not there, to those who may not list.
    "AccessDenied": "make deploy uploads it, and lets the pod's role read it",
    "NoSuchKey": "make deploy uploads it",
    "": _CHECK,
}

# An upload that is cut off must not leave half a turn that looks whole, nor two attempts of one
# number: attempts are numbered by the ledger, and complete by their progress.
_UPLOAD_ORDER: Final = {LEDGER: 0, PROGRESS: 2, COMPLETE: 3}


class Bucket:
    """The results in one bucket. Every method retries for five minutes where S3 fails."""

    def __init__(self, bucket: str, region: str, sleep: Sleep = time.sleep) -> None:
        self._bucket = bucket
        subject = f"s3://{bucket}"
        self._s3 = Service(
            "s3", region, sleep, subject=subject, error=ShippingError, checks=_RESULT_CHECKS
        )

    def upload(self, run_dir: Path, run_id: str) -> None:
        """Uploads each file of the folder to ``results/<run id>/<path>``, unless it is there.

        The folders of variants are left out, because each is a run of its own. Files may change or
        vanish meanwhile. Each is read once, so that its object is the file as it was at one moment.
        S3 takes at most 5 GB in one PutObject. Raises ShippingError.
        """
        stored = self._objects(results_key(run_id, ""))
        for path in sorted(
            run_dir.rglob("*"), key=lambda path: (_UPLOAD_ORDER.get(path.name, 1), path)
        ):
            name = path.relative_to(run_dir)
            if name.parts[0] == VARIANTS:
                continue
            try:
                data = path.read_bytes()
            except (IsADirectoryError, FileNotFoundError):
                continue
            except OSError as error:
                raise ShippingError(f"{path}: cannot be read: {error.strerror}") from None
            key = results_key(run_id, name.as_posix())
            # The ETag of an object is its MD5 if it was put in one piece into a bucket with S3's
            # own encryption. Otherwise every file is put again, which is only slower.
            digest = hashlib.md5(data, usedforsecurity=False).hexdigest()
            if key in stored and stored[key]["ETag"].strip('"') == digest:
                continue
            # With its type, a report opens in the browser instead of being saved.
            kind = mimetypes.guess_type(key)[0] or "application/octet-stream"
            put = partial(self._s3.client.put_object, Bucket=self._bucket, Key=key)
            self._s3.call(partial(put, Body=data, ContentType=kind))

    def fetch(self, run_id: str, run_dir: Path) -> None:
        """Downloads each file of a run that the folder lacks, whole or not at all.

        Raises ShippingError.
        """
        prefix = results_key(run_id, "")
        for key in self._objects(prefix):
            name = key.removeprefix(prefix)
            path = run_dir / name
            if not is_path(name) or path.exists():
                continue
            data = _get(self._s3, self._bucket, key)
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                write_whole(path, [data])
            except OSError as error:
                raise ShippingError(f"{path}: cannot be written: {error.strerror}") from None

    def complete(self, run_id: str) -> set[str]:
        """The folders of a run's variants that are marked complete. Raises ShippingError."""
        prefix = results_key(run_id, f"{VARIANTS}/")
        names = (key.removeprefix(prefix).split("/") for key in self._objects(prefix))
        return {name[0] for name in names if name[1:] == [COMPLETE]}

    def _objects(self, prefix: str) -> Mapping[str, Mapping[str, Any]]:
        """S3's metadata of each object below the prefix, by key."""
        paginator = self._s3.client.get_paginator("list_objects_v2")

        def listed() -> dict[str, Mapping[str, Any]]:
            pages = paginator.paginate(Bucket=self._bucket, Prefix=prefix)
            return {entry["Key"]: entry for page in pages for entry in page.get("Contents", [])}

        return self._s3.call(listed)


def fetch_prompts(config: Config, folder: Path, sleep: Sleep = time.sleep) -> Config:
    """Writes each prompt file that a test case names into ``folder``, under its name.

    Whoever reads it compares its digest. Returns the configuration with the lines that are in the
    bucket. Retries for five minutes where S3 fails. Raises RunError, and ConfigError for lines of
    another digest.
    """
    bucket = str(config.prompts_bucket)

    def fetch(prompts: str, key: str) -> bytes:
        subject = f"{prompts}: s3://{bucket}/{key}"
        service = Service(
            "s3", config.region, sleep, subject=subject, error=RunError, checks=_PROMPT_CHECKS
        )
        return _get(service, bucket, key)

    for case in config.test_cases:
        if case.prompts is not None and case.prompts.file is not None:
            content = fetch(f"prompts of {case.name}", str(case.prompts.digest))
            (folder / case.prompts.file).write_bytes(content)
    if config.lines is None:
        return config
    return with_lines(config, fetch("lines of test cases", config.lines))


def _get(service: Service, bucket: str, key: str) -> bytes:
    get = service.client.get_object
    return bytes(service.call(lambda: get(Bucket=bucket, Key=key)["Body"].read()))
