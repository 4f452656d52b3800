"""The Job of variants that run as jobs, as it is rendered."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from rehearsal.pod.manifest import Indexes, Pod, read_job_template


@dataclass(frozen=True, kw_only=True)
class OfflineJob(Indexes):
    """Its pods prepare the prompts, and then generate and collect at the same time."""

    prompts: Pod
    generate: Pod

    @property
    def collect(self) -> Pod:
        """What makes a run of what is generated."""
        return self.pod


def read_offline_job(directory: Path) -> OfflineJob:
    """The only Indexed Job of the manifests in ``directory``. Raises RehearsalError."""
    job = read_job_template(directory)
    return OfflineJob(
        prompts=job.container("prompts"),
        generate=job.container("generate"),
        pod=job.container("collect"),
        indexes=job.spec["completions"],
        parallelism=job.spec["parallelism"],
        retries=job.spec["backoffLimitPerIndex"],
        final=job.final("generate"),
    )
