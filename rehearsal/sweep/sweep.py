"""Each variant by itself: the indexes of one Job, and the run that is merged of what they leave."""

from __future__ import annotations

import os
from collections.abc import Collection
from typing import Final

from benchmark.names import LOAD_DIMENSION, VARIANT_DIMENSION
from experiment.estimate import estimate
from experiment.variants import variants
from rehearsal.errors import RehearsalError
from rehearsal.outcome import Measured
from rehearsal.pod.manifest import IndexedJob, read_indexed_job
from rehearsal.setting import BENCHMARK_SECONDS, Setting
from rehearsal.sweep import merged
from rehearsal.sweep.controller import Attempt, control
from rehearsal.sweep.faults import Faults
from rehearsal.sweep.pods import INDEX, Pods
from rehearsal.sweep.progress import Progress

_START_SECONDS: Final = "START_SECONDS"


def sweep(setting: Setting, faults: Faults) -> Measured:
    """Measures all variants, an index each. Raises RehearsalError or ProcessError."""
    job = _job(setting)
    console, layout, aws = setting.console, setting.layout, setting.aws
    servers = setting.endpoints.servers(setting.experiment, job, layout, aws.environment, console)
    place = setting.place(servers.urls, {_START_SECONDS: str(setting.endpoints.start_seconds)})
    pods = Pods(job, setting.entry_point, place, servers, faults.broken, layout)
    bucket = pods.benchmark(Attempt(0)).bucket
    given_up = _run(setting, pods, faults, bucket)
    failed = tuple(f"{pods.name(index)}: {why}" for index, why in sorted(given_up.items()))
    mergeable = _mergeable(setting, {job.variant_of(index) for index in given_up})
    if not mergeable:
        raise RehearsalError(f"no variant is complete with its baseline: {'; '.join(failed)}")
    run_dir = layout.mounts["/results"] / setting.run_id
    with console.stage("bring the merged run from the bucket") as stage:
        stage.found = merged.bring(aws, bucket, run_dir)
    with console.stage("compare the merged run with the variants' own") as stage:
        stage.found = merged.holds_all(run_dir, mergeable)
    absent = {(VARIANT_DIMENSION, job.variant_of(index)) for index in given_up}
    absent |= {(LOAD_DIMENSION, name) for name in pods.benchmark(Attempt(0)).left_out}
    differences = (*_differences(setting, pods), *faults.said)
    return Measured(run_dir, differences, servers.said, frozenset(absent), failed)


def _job(setting: Setting) -> IndexedJob:
    """The Job. Raises RehearsalError if its indexes are not the experiment's variants."""
    job = read_indexed_job(setting.layout.manifests)
    named = [job.variant_of(index) for index in range(job.indexes)]
    expected = [variant.name for variant in variants(setting.experiment)]
    if named != expected:
        raise RehearsalError(
            f"the Job measures {', '.join(named)}; the experiment has {', '.join(expected)}"
        )
    return job


def _mergeable(setting: Setting, failed: Collection[str]) -> list[str]:
    """The variants that can be compared: complete, as is their baseline."""
    return [
        variant.name
        for variant in variants(setting.experiment)
        if variant.name not in failed and variant.baseline not in failed
    ]


def _run(setting: Setting, pods: Pods, faults: Faults, bucket: str) -> dict[int, str]:
    """Runs all indexes; returns why some failed for good."""

    def is_to_die(attempt: Attempt) -> bool:
        return (
            attempt.index in faults.killed
            and attempt.number == 1
            and merged.has_records(
                setting.aws, bucket, setting.run_id, pods.job.folder_of(attempt.index)
            )
        )

    with setting.console.stage("run the sweep") as stage:
        progress = Progress(pods, setting.console, stage, is_to_die)
        control(
            pods.job.indexes,
            pods.job.retries,
            _at_once(setting, pods.job),
            pods.start,
            progress,
            BENCHMARK_SECONDS * pods.job.indexes,
        )
        stage.found = f"{pods.job.indexes - len(progress.given_up)} of {pods.job.indexes} complete"
    return progress.given_up


def _claims(setting: Setting, job: IndexedJob) -> int:
    """How many indexes the cluster runs at the same time."""
    return min(job.parallelism, estimate(setting.experiment).at_once)


def _at_once(setting: Setting, job: IndexedJob) -> int:
    """How many run here at the same time."""
    most = setting.endpoints.at_once or os.cpu_count() or 1
    return min(_claims(setting, job), most)


def _differences(setting: Setting, pods: Pods) -> list[str]:
    said = list(pods.benchmark(Attempt(0)).differences)
    claims, at_once = _claims(setting, pods.job), _at_once(setting, pods.job)
    return [
        f"{INDEX} and folders: each index has its own; those named here are of index 0",
        "folders: empty in each attempt",
        *said,
        "vllm: a process beside the benchmark, which is not started again if it ends",
        "fetch: left out, since nothing is compiled",
        *([f"indexes at once: {at_once} in place of {claims}"] if at_once != claims else []),
    ]
