"""Checks after the benchmark: bucket and dashboards have what it measured."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Collection, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

from rehearsal import RehearsalError
from rehearsal.aws.client import Aws
from rehearsal.aws.dashboards import Curve, Identity
from spectap.load_points import LoadPoint
from spectap.metrics import SERVED_TOKENS
from spectap.names import (
    LOAD_DIMENSION,
    NAMESPACE_SUFFIX,
    SUMMARY,
    TEST_CASE_DIMENSION,
    VARIANT_DIMENSION,
    results_key,
)

# How many problems the one line of a failure names.
_NAMED: Final = 3
# Both calculate with the same sums. A dashboard's price has six digits, its times nanoseconds.
_SAME_COST: Final = 1e-4
_CELL: Final = (TEST_CASE_DIMENSION, VARIANT_DIMENSION, LOAD_DIMENSION)


def bucket_holds(aws: Aws, bucket: str, run_dir: Path) -> str:
    """Checks that the bucket holds the run's folder as it is here; returns the result in words.

    Raises RehearsalError.
    """
    files = {
        path.relative_to(run_dir).as_posix(): _digest(path)
        for path in run_dir.rglob("*")
        if path.is_file()
    }
    objects = dict(_objects(aws.client("s3"), bucket, results_key(run_dir.name, "")))
    differences = [
        *(f"{name} is missing" for name in sorted(files.keys() - objects.keys())),
        *(f"{name} is in the bucket alone" for name in sorted(objects.keys() - files.keys())),
        *(
            f"{name} differs"
            for name in sorted(files.keys() & objects.keys())
            if files[name] != objects[name]
        ),
    ]
    if differences:
        raise RehearsalError(f"s3://{bucket}: {_first_of(differences)}")
    return f"{len(files)} files, all the same in s3://{bucket}"


def dashboards_show(
    aws: Aws,
    drawn: Sequence[Curve],
    *,
    without: Collection[tuple[str, str]] = (),
    added: Collection[tuple[str, str]] = (),
) -> str:
    """Checks the dashboards' curves against the published metrics; returns the result in words.

    Each curve must draw metrics that the benchmark has published, and each published metric must be
    on a dashboard. Both exceptions are dimensions with their values: curves of what was not
    measured, ``without``, such as a load point that was left out, and metrics of what the
    experiment has not, ``added``, such as a variant of the rehearsal alone. Raises RehearsalError.
    """
    absent, not_drawn = frozenset(without), frozenset(added)
    curves = [c for c in drawn if not any(absent & metric.dimensions for metric in c.metrics)]
    # The others show what agents report from the nodes, and there are no nodes.
    ours = [
        c
        for c in curves
        if any(metric.namespace.endswith(NAMESPACE_SUFFIX) for metric in c.metrics)
    ]
    metrics = set(_published(aws.client("cloudwatch")))
    published = {metric for metric in metrics if not not_drawn & metric.dimensions}
    empty = [f"{c.title}: {c.label} shows nothing" for c in ours if not c.metrics <= published]
    on_dashboards = frozenset[Identity]().union(*(curve.metrics for curve in drawn))
    missing = published - on_dashboards
    unseen = [f"{metric} is on no dashboard" for metric in sorted(missing, key=str)]
    if empty or unseen:
        raise RehearsalError(f"dashboards: {_first_of([*empty, *unseen])}")
    if not ours:
        raise RehearsalError("dashboards: none draws what the benchmark publishes")
    left_out, on_none = len(drawn) - len(curves), len(metrics) - len(published)
    names = ", ".join(sorted(value for _, value in not_drawn))
    return (
        f"{len(ours)} curves draw the {len(published)} published metrics "
        f"({len(curves) - len(ours)} others draw node telemetry, and there are no nodes"
        f"{f'; {left_out} are of what was not measured' if left_out else ''})"
        f"{f'; {on_none} metrics of {names} are on none' if on_none else ''}"
    )


def costs_agree(
    aws: Aws, drawn: Sequence[Curve], run_dir: Path, *, added: Collection[tuple[str, str]] = ()
) -> str:
    """Checks that the dashboards have the report's costs; returns the result in words.

    A dashboard's cost over the time range of the run must be that of ``summary.json``, for each
    test case, variant and load point that has one there. ``added`` is as in ``dashboards_show``.
    Raises RehearsalError.
    """
    summary = json.loads((run_dir / SUMMARY).read_text(encoding="utf-8"))
    ladder = len(summary["loads"]) > 1
    reported = {
        (
            cell["test_case"],
            cell["variant"],
            *([LoadPoint.model_validate(cell["load"]).name] if ladder else []),
        ): cell["usd_per_million_output_tokens"]
        for case in summary["cases"]
        for cell in case["cells"]
        if cell["usd_per_million_output_tokens"] is not None
        and (VARIANT_DIMENSION, cell["variant"]) not in added
    }
    statistic = partial(_statistic, aws.client("cloudwatch"), summary["started"], summary["ended"])
    on_dashboards = {
        _cell(curve): curve.value(statistic)
        for curve in drawn
        if SERVED_TOKENS.name in {metric.name for metric in curve.metrics}
        and _cell(curve) in reported
    }
    pairs = {cell: (usd, on_dashboards.get(cell, math.nan)) for cell, usd in reported.items()}
    differences = [
        f"{' '.join(cell)}: {usd:.4f} USD in the report, {drawn_usd:.4f} here"
        for cell, (usd, drawn_usd) in pairs.items()
        if not math.isclose(usd, drawn_usd, rel_tol=_SAME_COST)
    ]
    if differences:
        raise RehearsalError(f"dashboards: {_first_of(differences)}")
    if not reported:
        raise RehearsalError(f"{run_dir / SUMMARY}: has no cost to compare with the dashboards'")
    return f"{len(on_dashboards)} costs, all the same"


def _cell(curve: Curve) -> tuple[str, ...]:
    """Test case, variant and, where there are several, load point of a curve about one of each."""
    (cell,) = {
        tuple(dimensions[name] for name in _CELL if name in dimensions)
        for dimensions in (dict(metric.dimensions) for metric in curve.metrics)
    }
    return cell


def _statistic(
    cloudwatch: Any, started: float, ended: float, metric: Identity, statistic: str
) -> float:
    """Over the whole minutes from ``started`` to ``ended``, both in Unix seconds.

    NaN without data. moto takes any period; CloudWatch would take the same multiple of a minute.
    """
    start, end = int(started // 60) * 60, int(ended // 60 + 1) * 60
    datapoints = cloudwatch.get_metric_statistics(
        Namespace=metric.namespace,
        MetricName=metric.name,
        Dimensions=[{"Name": name, "Value": value} for name, value in metric.dimensions],
        StartTime=start,
        EndTime=end,
        Period=end - start,
        Statistics=[statistic],
    )["Datapoints"]
    return float(datapoints[0].get(statistic, math.nan)) if datapoints else math.nan


def _digest(path: Path) -> str:
    # S3 makes this the ETag of an object that was put in one piece.
    return hashlib.md5(path.read_bytes(), usedforsecurity=False).hexdigest()


def _objects(s3: Any, bucket: str, prefix: str) -> Iterator[tuple[str, str]]:
    pages = s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
    for page in pages:
        for item in page.get("Contents", []):
            yield item["Key"].removeprefix(prefix), item["ETag"].strip('"')


def _published(cloudwatch: Any) -> Iterator[Identity]:
    for page in cloudwatch.get_paginator("list_metrics").paginate():
        for metric in page["Metrics"]:
            if metric["Namespace"].endswith(NAMESPACE_SUFFIX):
                dimensions = frozenset((d["Name"], d["Value"]) for d in metric["Dimensions"])
                yield Identity(metric["Namespace"], metric["MetricName"], dimensions)


def _first_of(lines: Sequence[str]) -> str:
    more = f" and {len(lines) - _NAMED} more" if len(lines) > _NAMED else ""
    return "; ".join(lines[:_NAMED]) + more
