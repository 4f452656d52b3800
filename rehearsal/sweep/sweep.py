"""Each variant by itself: the indexes of one Job, each with a server of its own."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Final

from experiment.cost.durations import estimate
from rehearsal.outcome import Measured
from rehearsal.pod.manifest import IndexedJob, read_indexed_job
from rehearsal.setting import Setting
from rehearsal.sweep import indexes
from rehearsal.sweep.controller import Attempt
from rehearsal.sweep.faults import Faults
from rehearsal.sweep.pods import Pods
from spectap.names import PROGRESS

_START_SECONDS: Final = "START_SECONDS"


def sweep(setting: Setting, faults: Faults) -> Measured:
    """Measures all variants, an index each. Raises RehearsalError or ProcessError."""
    job = read_indexed_job(setting.layout.manifests)
    indexes.check(setting, job)
    layout, endpoints = setting.layout, setting.endpoints
    servers = endpoints.servers(
        setting.experiment, job, layout, setting.serving_environment, setting.console
    )
    place = setting.place(servers.urls, {_START_SECONDS: str(endpoints.start_seconds)})
    pods = Pods(job, setting.entry_point, place, servers, faults.broken, layout)
    return indexes.measured(
        setting,
        pods,
        faults,
        title="run the sweep",
        at_once=_at_once(setting, job),
        # The ledger alone does not say so: this is uploaded after it, when a turn is over.
        note=PROGRESS,
        said=servers.said,
        differences=_differences(setting, pods),
    )


def _claims(setting: Setting, job: IndexedJob) -> int:
    """How many indexes the cluster runs at the same time."""
    return min(job.parallelism, estimate(setting.experiment).at_once)


def _at_once(setting: Setting, job: IndexedJob) -> int:
    """How many run here at the same time."""
    most = setting.endpoints.at_once or os.cpu_count() or 1
    return min(_claims(setting, job), most)


def _differences(setting: Setting, pods: Pods) -> Iterator[str]:
    yield from pods.benchmark(Attempt(0)).differences
    yield "vllm: a process beside the benchmark, which is not started again if it ends"
    yield "fetch: left out, since nothing is compiled"
    claims, at_once = _claims(setting, pods.job), _at_once(setting, pods.job)
    if at_once != claims:
        yield f"indexes at once: {at_once} in place of {claims}"
