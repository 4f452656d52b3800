"""Runs the indexes of a Job and brings the run that they leave, whatever an index is made of."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from contextlib import AbstractContextManager
from typing import Protocol

from experiment.variants import variants
from rehearsal.errors import RehearsalError
from rehearsal.outcome import Measured
from rehearsal.pod.as_process import BenchmarkProcess
from rehearsal.pod.manifest import Indexes
from rehearsal.process.processes import Process
from rehearsal.setting import BENCHMARK_SECONDS, Setting
from rehearsal.sweep import merged
from rehearsal.sweep.controller import Attempt, control
from rehearsal.sweep.faults import Faults
from rehearsal.sweep.progress import Progress
from spectap.names import LOAD_DIMENSION, VARIANT_DIMENSION

INDEX = "JOB_COMPLETION_INDEX"
"""Kubernetes gives it to each container of an Indexed Job's pods."""


class IndexPods(Protocol):
    """All pods that the indexes of a Job may need."""

    @property
    def job(self) -> Indexes:
        """The Job."""

    def benchmark(self, attempt: Attempt) -> BenchmarkProcess:
        """What ends the pod. Raises RehearsalError."""

    def start(self, attempt: Attempt) -> AbstractContextManager[Process]:
        """Starts a pod, whose main process it gives, and ends what is left of it."""

    def name(self, index: int) -> str:
        """An index and its variant."""

    def why(self, attempt: Attempt) -> str:
        """Why an attempt that is over has failed."""


def check(setting: Setting, job: Indexes) -> None:
    """Raises RehearsalError if the Job's indexes are not the experiment's variants."""
    named = [job.variant_of(index) for index in range(job.indexes)]
    expected = [variant.name for variant in variants(setting.experiment)]
    if named != expected:
        raise RehearsalError(
            f"the Job measures {', '.join(named)}; the experiment has {', '.join(expected)}"
        )


def measured(
    setting: Setting,
    pods: IndexPods,
    faults: Faults,
    *,
    title: str,
    at_once: int,
    note: str,
    said: tuple[str, ...],
    differences: Iterable[str],
    load: str | None = None,
) -> Measured:
    """Measures all variants, an index each, and brings what was merged of them.

    ``title`` is that of the stage, ``note`` the file of a variant's folder that names the turns
    which are not measured again, ``said`` what the stand-ins say, ``differences`` those from the
    pods, ``load`` as in ``Measured``. Raises RehearsalError or ProcessError.
    """
    console, first = setting.console, pods.benchmark(Attempt(0))
    given_up = _run(setting, pods, faults, title, at_once, note)
    failed = tuple(f"{pods.name(index)}: {why}" for index, why in sorted(given_up.items()))
    mergeable = _mergeable(setting, {pods.job.variant_of(index) for index in given_up})
    if not mergeable:
        raise RehearsalError(f"no variant is complete with its baseline: {'; '.join(failed)}")
    run_dir = setting.layout.mounts["/results"] / setting.run_id
    with console.stage("bring the merged run from the bucket") as stage:
        stage.found = merged.bring(setting.aws, first.bucket, run_dir)
    with console.stage("compare the merged run with the variants' own") as stage:
        stage.found = merged.holds_all(run_dir, mergeable)
    absent = {(VARIANT_DIMENSION, pods.job.variant_of(index)) for index in given_up}
    absent |= {(LOAD_DIMENSION, name) for name in first.left_out}
    told = (*_folders(), *differences, *faults.said)
    return Measured(run_dir, told, said, frozenset(absent), failed, load)


def _folders() -> Iterator[str]:
    yield f"{INDEX} and folders: each index has its own; those named here are of index 0"
    yield "folders: empty in each attempt"


def _mergeable(setting: Setting, failed: Collection[str]) -> list[str]:
    """The variants that can be compared: complete, as is their baseline."""
    return [
        variant.name
        for variant in variants(setting.experiment)
        if variant.name not in failed and variant.baseline not in failed
    ]


def _run(
    setting: Setting, pods: IndexPods, faults: Faults, title: str, at_once: int, note: str
) -> dict[int, str]:
    """Runs all indexes; returns why some failed for good."""
    job, bucket = pods.job, pods.benchmark(Attempt(0)).bucket

    def is_to_die(attempt: Attempt) -> bool:
        folder = job.folder_of(attempt.index)
        return (
            attempt.index in faults.killed
            and attempt.number == 1
            and merged.has_records(setting.aws, bucket, setting.run_id, folder, note)
        )

    with setting.console.stage(title) as stage:
        progress = Progress(pods, setting.console, stage, is_to_die)
        seconds = BENCHMARK_SECONDS * job.indexes
        control(job.indexes, job.retries, at_once, pods.start, progress, seconds, job.final)
        stage.found = f"{job.indexes - len(progress.given_up)} of {job.indexes} complete"
    return progress.given_up
