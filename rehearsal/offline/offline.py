"""Each variant as a job: the indexes of one Job, each of which runs by itself."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from experiment.variants import variants
from rehearsal.errors import RehearsalError
from rehearsal.offline.pods import OfflinePods
from rehearsal.outcome import Measured
from rehearsal.pod.manifest import Indexes, read_job_template
from rehearsal.setting import Setting
from rehearsal.sweep import indexes
from rehearsal.sweep.controller import Attempt
from rehearsal.sweep.faults import Faults
from spectap.names import CONFIG

STAND_IN: Final = "an output of inference_demo that no device made"


def offline(setting: Setting, faults: Faults) -> Measured:
    """Runs all variants, an index each. Raises RehearsalError or ProcessError."""
    if faults.killed:
        raise RehearsalError("--kill: a job leaves nothing in the middle to go on from")
    template = read_job_template(setting.layout.manifests)
    job = Indexes(
        pod=template.container("collect"),
        indexes=template.spec["completions"],
        parallelism=template.spec["parallelism"],
        retries=template.spec["backoffLimitPerIndex"],
        final=template.final("collect"),
    )
    indexes.check(setting, job)
    pods = OfflinePods(
        job,
        {variant.name: variant for variant in variants(setting.experiment)},
        setting.entry_point,
        replace(setting.place({}), stand_in=STAND_IN),
        faults,
        setting.layout,
    )
    return indexes.measured(
        setting,
        pods,
        faults,
        title="run the jobs",
        at_once=job.parallelism,
        note=CONFIG,  # nothing is killed, so nobody asks
        said=(f"none; {STAND_IN}",),
        differences=_differences(pods),
        load="none; a job generates one answer after another",
    )


def _differences(pods: OfflinePods) -> Iterator[str]:
    yield from pods.benchmark(Attempt(0)).differences
    yield f"generate: {STAND_IN}"
    yield "fetch: left out, since nothing is compiled"
