"""The run that the indexes of a Job have left in the bucket."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from rehearsal import RehearsalError
from rehearsal.aws.client import Aws
from spectap import config
from spectap.errors import JournalError
from spectap.ledger import read_ledger
from spectap.names import (
    CONFIG,
    INFERENCE_DEMO,
    INFERENCE_DEMOS,
    LEDGER,
    PROGRESS,
    VARIANTS,
    WARM_UP,
    results_key,
)

_Turn = tuple[str, str, str, int, int]
_REPORT: Final = "report.html"


def bring(aws: Aws, bucket: str, run_dir: Path) -> str:
    """Downloads everything below ``results/<its name>/`` into a folder; returns the count.

    Raises RehearsalError if no run was merged.
    """
    s3, prefix = aws.client("s3"), results_key(run_dir.name, "")
    count = 0
    for page in s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix):
        for entry in page.get("Contents", []):
            path = run_dir / entry["Key"].removeprefix(prefix)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(_body(s3, bucket, entry["Key"]))
            count += 1
    for name in (CONFIG, LEDGER, _REPORT):
        if not (run_dir / name).is_file():
            raise RehearsalError(f"s3://{bucket}/{prefix}: no index has left a {name}")
    return f"{count} files from s3://{bucket}/{prefix}"


def holds_all(run_dir: Path, expected: Sequence[str]) -> str:
    """Checks that a merged run is of these variants, with all they measured; returns the counts.

    Raises RehearsalError.
    """
    variants = config.read(run_dir / CONFIG).variants
    names = [variant.name for variant in variants]
    if names != [*expected]:
        raise RehearsalError(
            f"{run_dir / CONFIG}: has {', '.join(names)}, not {', '.join(expected)}"
        )
    folders = [run_dir / VARIANTS / variant.folder for variant in variants]
    if not variants[0].endpoint:
        return _holds_reports(run_dir, dict(zip(names, folders, strict=True)))
    merged = _turns(run_dir)
    isolated = sum(map(_turns, folders), Counter[_Turn]())
    for turn in sorted(merged.keys() | isolated.keys()):
        if merged[turn] != isolated[turn]:
            variant, case, load, round, _ = turn
            raise RehearsalError(
                f"{run_dir / LEDGER}: {merged[turn]} requests of {variant}, {case}, {load}, round "
                f"{round}; its own ledger has {isolated[turn]}"
            )
    return f"{merged.total()} requests of {len(names)} variants, all there"


def _holds_reports(run_dir: Path, folders: Mapping[str, Path]) -> str:
    """Of jobs, which have no request. Raises RehearsalError."""
    for name, folder in folders.items():
        merged = run_dir / INFERENCE_DEMOS / f"{name}.json"
        isolated = folder / INFERENCE_DEMO
        if not merged.exists() or merged.read_bytes() != isolated.read_bytes():
            raise RehearsalError(f"{merged}: is not {isolated}")
    return f"{len(folders)} reports of inference_demo, all there"


def has_records(aws: Aws, bucket: str, run_id: str, folder: str) -> bool:
    """Whether a variant's folder in the bucket has a turn that is not measured again.

    The ledger alone does not tell: the progress is uploaded after it, when a turn is over.
    """
    s3, key = aws.client("s3"), results_key(run_id, f"{VARIANTS}/{folder}/{PROGRESS}")
    try:
        progress = _body(s3, bucket, key)
    except s3.exceptions.NoSuchKey:
        return False
    return any(json.loads(line)["round"] > WARM_UP for line in progress.splitlines())


def _body(s3: Any, bucket: str, key: str) -> bytes:
    body: bytes = s3.get_object(Bucket=bucket, Key=key)["Body"].read()
    return body


def _turns(run_dir: Path) -> Counter[_Turn]:
    """How many requests each turn has, but for those that are in no figure."""
    try:
        records = read_ledger(run_dir / LEDGER)
    except JournalError as error:
        raise RehearsalError(str(error)) from None
    return Counter(
        (record.variant, record.case, record.load, record.round, record.attempt)
        for record in records
        if record.round > WARM_UP
    )
