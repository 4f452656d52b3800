"""Whether the experiment has been measured: a complete run of it in the bucket."""

from __future__ import annotations

import json
from typing import Any, Final

from pydantic import ValidationError

from charts.indexes import indexed_config, run_id
from charts.llmperf import benchmark_config
from charts.names import benchmark_pod
from deployment import objects
from deployment.account import Deployment
from deployment.bucket import Bucket
from deployment.cluster import connected
from deployment.stages.nodes import are_stopped
from deployment.stages.stage import Context
from spectap.config import Config
from spectap.names import (
    COMPLETE,
    CONFIG,
    MERGED,
    RESULTS_PREFIX,
    RUN_ID,
    results_key,
    variant_run,
)

_MEASURED: Final = ("model", "load", "test_cases", "keep_answers")
"""Fields of a configuration that decide, beside the variants, what is measured."""


def complete(deployment: Deployment) -> str | None:
    """The newest complete run of this very experiment; None if there is none.

    A run is complete by its marker, and it is this experiment's if it was asked the same of the
    same variants. Raises DeploymentError.
    """
    bucket = Bucket(deployment)
    if deployment.experiment.apart:
        names, run = {*indexes(deployment).names}, run_id(deployment.experiment)
        if names - {*complete_indexes(deployment)}:
            return None
        # Written by whichever index ends last, after all of them are complete.
        merged = json.loads(bucket.read(results_key(run, MERGED)) or b"{}")
        return run if names <= {*merged.get("complete", [])} else None
    ends: dict[str, Any] = {
        run: entry["LastModified"]
        for entry in bucket.entries(RESULTS_PREFIX)
        for run, _, name in [entry["Key"].removeprefix(RESULTS_PREFIX).partition("/")]
        if name == COMPLETE and RUN_ID.fullmatch(run)
    }
    expected = benchmark_config(deployment.experiment, bucket.name)
    for run in sorted(ends, key=lambda run: ends[run], reverse=True):
        config = _config(bucket, run)
        if config and _measured(config) == _measured(expected):
            return run
    return None


def measured(context: Context) -> str | None:
    """The complete run that makes all that costs unnecessary; None if there is none.

    A run that was begun after it, on nodes that are running, is not to be given up for it. Variants
    that are measured one by one are not measured twice in a run. Raises DeploymentError.
    """
    deployment, is_isolated = context.deployment, context.deployment.experiment.apart
    run = None if context.again and not is_isolated else complete(deployment)
    if run is None or is_isolated or are_stopped(deployment):
        return run
    with connected(deployment) as api:
        pod = objects.pod(api, benchmark_pod(deployment.experiment))
    if pod is None or pod.status.phase in objects.OVER or pod.metadata.uid == run:
        return run
    has_begun = Bucket(deployment).entries(results_key(pod.metadata.uid, ""))
    return None if has_begun else run


def indexes(deployment: Deployment) -> Config:
    """What the indexes of the experiment's Job are given."""
    return indexed_config(deployment.experiment, Bucket(deployment).name, "any")


def complete_indexes(deployment: Deployment) -> list[str]:
    """Names of the variants whose results are complete. Raises DeploymentError."""
    bucket, run = Bucket(deployment), run_id(deployment.experiment)
    return [
        variant.name
        for variant in indexes(deployment).variants
        if bucket.has(results_key(variant_run(run, variant.folder), COMPLETE))
    ]


def _measured(config: Config) -> list[object]:
    """Of variants what they are, and not where they answer."""
    variants = [variant.model_copy(update={"endpoint": None}) for variant in config.variants]
    return [*(getattr(config, name) for name in _MEASURED), variants]


def _config(bucket: Bucket, run: str) -> Config | None:
    """None for a run of another version, which this one does not read."""
    try:
        return Config.model_validate_json(bucket.read(results_key(run, CONFIG)) or b"")
    except ValidationError:
        return None
