"""In place of NxDI in the pods of jobs: the golden one, with the pod's own script around it."""

from __future__ import annotations

import os
from typing import Final

from rehearsal.account.roles.around import Around, mapped, scripted
from rehearsal.cluster.disk import Container, write
from rehearsal.cluster.programs import Program
from rehearsal.offline.nxdi.device import TRUTH
from rehearsal.offline.offline import truths
from rehearsal.offline.pods import STUB
from rehearsal.pod.as_process import here

_CONFIG: Final = "/etc/benchmark"


def generate(container: Container, around: Around) -> Program:
    """The pod's own script; the packages that its command imports are golden ones."""
    index = container.environment["JOB_COMPLETION_INDEX"]
    lines = container.files[f"{_CONFIG}/{index}.generate"].decode().splitlines()
    told = "\n".join([*(mapped(line, container) for line in lines), ""])
    write(here(f"{_CONFIG}/{index}.generate", container.mounts), told.encode())
    name = container.files[f"{_CONFIG}/{index}.variant"].decode().strip()
    truth = here("/tmp", container.mounts) / "truth.json"
    truths(around.experiment)[name].write(truth)
    program = scripted(container, around)
    packages = os.pathsep.join([str(around.root), str(STUB)])
    variables = {**program.environment, "PYTHONPATH": packages, TRUTH: str(truth)}
    directory = here(str(container.spec.get("workingDir", "/tmp")), container.mounts)
    return Program(program.command, variables, directory)
