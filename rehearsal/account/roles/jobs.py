"""In place of NxDI in the pods of jobs: what it would leave."""

from __future__ import annotations

import sys

from experiment.variants import variants
from rehearsal.account.roles.around import Around
from rehearsal.cluster.disk import Container
from rehearsal.cluster.programs import Program
from rehearsal.offline.pods import leave_output
from rehearsal.pod.as_process import here
from spectap.names import VARIANTS


def generate(container: Container, around: Around) -> Program:
    """Leaves the output before it starts, and ends at once."""
    index = container.environment["JOB_COMPLETION_INDEX"]
    name, folder = (
        container.files[f"/etc/benchmark/{index}.{file}"].decode().strip()
        for file in ("variant", "folder")
    )
    (variant,) = (variant for variant in variants(around.experiment) if variant.name == name)
    run = here("/results", container.mounts) / container.environment["RUN_ID"]
    leave_output(variant, run / VARIANTS / folder)
    return Program([sys.executable, "-c", ""], around.variables(container))
