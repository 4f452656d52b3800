"""Brings the results of the newest lm-eval Job from the bucket into a run's folder."""

from __future__ import annotations

import shutil
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Final

import boto3
import orjson

from spectap.answer import Evaluation
from spectap.aws.retry import AWS_ERRORS, ONE_ATTEMPT, Sleep, T, error_code, explain, persist
from spectap.errors import BucketError
from spectap.names import EVALUATION, QUALITY, RUN_ID, results_key

_CHECKS: Final = {
    "AccessDenied": "check that the pod's role may list and read objects below results/ in it",
    "NoSuchBucket": "check the configuration's bucket, and that its stack is deployed",
}
_CHECK: Final = "check the bucket, the region and the pod's role"


class Quality:
    """The evaluations in one bucket."""

    def __init__(self, bucket: str, region: str, sleep: Sleep = time.sleep) -> None:
        self._bucket, self._sleep = bucket, sleep
        self._client = boto3.client("s3", region_name=region, config=ONE_ATTEMPT)

    def fetch(self, run_dir: Path, variants: Collection[str]) -> Evaluation | None:
        """Puts the newest evaluation's samples into ``run_dir/quality/<variant>/``.

        Beside them goes ``evaluation.json``, which says whose they are. An evaluation is what a Job
        has written to ``results/quality/<id>/<variant>/...``; one counts if it has samples of two
        of the variants. They take the place of what was there before. None where there is no
        evaluation; then nothing is changed. Retries for five minutes where S3 fails. Raises
        BucketError, and OSError.
        """
        found = self._persist(partial(self._samples, variants))
        complete = {id: files for id, files in found.items() if len(_variants(files)) > 1}
        if not complete:
            return None
        newest = max(complete, key=lambda id: (max(complete[id].values()), id))
        prefix = _prefix(newest)
        draft = run_dir / f"{QUALITY}.draft"
        shutil.rmtree(draft, ignore_errors=True)
        for name in complete[newest]:
            content = self._persist(partial(self._get, f"{prefix}{name}"))
            (draft / name).parent.mkdir(parents=True, exist_ok=True)
            (draft / name).write_bytes(content)
        ended = max(complete[newest].values()).astimezone(UTC)
        evaluation = Evaluation(newest, ended, tuple(sorted(complete[newest])))
        line = orjson.dumps(evaluation, option=orjson.OPT_APPEND_NEWLINE)
        (draft / EVALUATION).write_bytes(line)
        shutil.rmtree(run_dir / QUALITY, ignore_errors=True)
        draft.rename(run_dir / QUALITY)
        return evaluation

    def _samples(self, variants: Collection[str]) -> Mapping[str, Mapping[str, datetime]]:
        """When each file was written, by its path in the evaluation, by the evaluation's id."""
        found: defaultdict[str, dict[str, datetime]] = defaultdict(dict)
        pages = self._client.get_paginator("list_objects_v2").paginate(
            Bucket=self._bucket, Prefix=_prefix()
        )
        for entry in (entry for page in pages for entry in page.get("Contents", [])):
            id, _, name = entry["Key"].removeprefix(_prefix()).partition("/")
            if not RUN_ID.fullmatch(id):
                continue
            variant, *between, file = name.split("/")
            if any(part in ("", ".", "..") for part in between):
                continue  # it would be written elsewhere: whoever may write to a bucket names keys
            if variant in variants and file.startswith("samples_") and file.endswith(".jsonl"):
                found[id][name] = entry["LastModified"]
        return found

    def _get(self, key: str) -> bytes:
        answer: dict[str, Any] = self._client.get_object(Bucket=self._bucket, Key=key)
        content: bytes = answer["Body"].read()
        return content

    def _persist(self, call: Callable[[], T]) -> T:
        try:
            return persist(call, self._sleep)
        except AWS_ERRORS as error:
            check = _CHECKS.get(error_code(error), _CHECK)
            raise BucketError(f"s3://{self._bucket}: {explain(error, check)}") from None


def _prefix(id: str = "") -> str:
    return results_key(QUALITY, f"{id}/" if id else "")


def _variants(files: Mapping[str, datetime]) -> set[str]:
    return {name.partition("/")[0] for name in files}
