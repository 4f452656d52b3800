"""What has to be true when the benchmark has ended: results in the bucket, curves to look at."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from benchmark.names import NAMESPACE, results_key
from rehearsal.aws import dashboards
from rehearsal.aws.client import Aws
from rehearsal.aws.dashboards import Curve, Widget
from rehearsal.errors import RehearsalError

# More than these are not named in the one line of a failure.
_NAMED: Final = 3


def bucket_holds(aws: Aws, bucket: str, run_dir: Path) -> str:
    """Whether the run's folder and its copy are the same; returns what was found.

    Raises RehearsalError.
    """
    here = {path.relative_to(run_dir).as_posix(): _digest(path) for path in _files(run_dir)}
    there = dict(_objects(aws.client("s3"), bucket, results_key(run_dir.name, "")))
    differences = [
        *(f"{name} is missing" for name in sorted(here.keys() - there.keys())),
        *(f"{name} is in the bucket alone" for name in sorted(there.keys() - here.keys())),
        *(f"{name} differs" for name in sorted(here) if here[name] != there.get(name, here[name])),
    ]
    if differences:
        raise RehearsalError(f"s3://{bucket}: {_some(differences)}")
    return f"{len(here)} files, all the same in s3://{bucket}"


def dashboards_show(aws: Aws, experiment: str, start: datetime, log: Path) -> str:
    """Whether each curve of what the benchmark published has values; returns what was found.

    ``log`` takes them all. Raises RehearsalError.
    """
    cloudwatch = aws.client("cloudwatch")
    widgets = list(_widgets(cloudwatch, experiment))
    # The others show what agents on the nodes report, and there are no nodes.
    ours = [widget for widget in widgets if NAMESPACE in widget.namespaces]
    end = datetime.now(UTC) + timedelta(minutes=1)
    curves = [curve for widget in ours for curve in dashboards.read(cloudwatch, widget, start, end)]
    log.write_text("".join(map(_line, curves)), encoding="utf-8")
    silent = [f"{curve.place}: {curve.label}" for curve in curves if not curve.values]
    if silent or not curves:
        raise RehearsalError(f"shows nothing: {_some(silent) or 'any dashboard'}; see {log}")
    others = len(widgets) - len(ours)
    elsewhere = f" ({others} widgets of node telemetry have no nodes)" if others else ""
    return f"{len(curves)} curves in {len(ours)} widgets all show values{elsewhere}"


def _files(folder: Path) -> Iterator[Path]:
    return (path for path in folder.rglob("*") if path.is_file())


def _digest(path: Path) -> str:
    # The ETag of an object that was put in one piece.
    return hashlib.md5(path.read_bytes(), usedforsecurity=False).hexdigest()


def _objects(s3: Any, bucket: str, prefix: str) -> Iterator[tuple[str, str]]:
    pages = s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
    for page in pages:
        for item in page.get("Contents", []):
            yield item["Key"].removeprefix(prefix), item["ETag"].strip('"')


def _widgets(cloudwatch: Any, experiment: str) -> Iterator[Widget]:
    pages = cloudwatch.get_paginator("list_dashboards").paginate(
        DashboardNamePrefix=f"{experiment}-"
    )
    for page in pages:
        for entry in page["DashboardEntries"]:
            yield from dashboards.widgets(cloudwatch, entry["DashboardName"])


def _line(curve: Curve) -> str:
    values = " ".join(f"{value:.6g}" for value in curve.values) or "nothing"
    return f"{curve.place} | {curve.label} | {values}\n"


def _some(lines: Sequence[str]) -> str:
    more = f" and {len(lines) - _NAMED} more" if len(lines) > _NAMED else ""
    return "; ".join(lines[:_NAMED]) + more
