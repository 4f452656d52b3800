"""The pods of a job's indexes: what ``inference_demo`` would leave, and what collects it."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from experiment.variants import Variant
from rehearsal.layout import Layout
from rehearsal.pod.as_process import BenchmarkProcess, Place, as_process
from rehearsal.pod.manifest import Indexes
from rehearsal.process.processes import Process, reason, running, text
from rehearsal.sweep.controller import Attempt
from rehearsal.sweep.faults import Faults
from rehearsal.sweep.indexes import INDEX
from spectap.names import INFERENCE_DEMO, INFERENCE_DEMO_LOG, VARIANTS

_OUTPUTS: Final = Path(__file__).with_name("recorded")
"""Reports and logs as ``inference_demo`` writes them, by mode. No device made their figures."""


def leave_output(variant: Variant, folder: Path) -> None:
    """Leaves in a variant's folder what ``inference_demo`` would. Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in (INFERENCE_DEMO, INFERENCE_DEMO_LOG):
        output = _OUTPUTS / f"{variant.mode or 'baseline'}{Path(name).suffix}"
        shutil.copyfile(output, folder / name)


@dataclass(frozen=True)
class OfflinePods:
    """All pods that the Job may need."""

    job: Indexes
    variants: Mapping[str, Variant]
    entry_point: Sequence[str]
    place: Place
    """Where all of them run; the folders are those of none."""
    faults: Faults
    layout: Layout

    def benchmark(self, attempt: Attempt) -> BenchmarkProcess:
        """What collects. Raises RehearsalError."""
        folder = self._folder(attempt)
        place = replace(
            self.place,
            mounts={path: folder / path.strip("/") for path in self.place.mounts},
            variables={**self.place.variables, INDEX: str(attempt.index)},
        )
        return as_process(self.job.pod, self.entry_point, place)

    @contextlib.contextmanager
    def start(self, attempt: Attempt) -> Iterator[Process]:
        """Starts a pod and ends it. Its folders are its own, and empty. Raises RehearsalError."""
        folder = self._folder(attempt)
        shutil.rmtree(folder, ignore_errors=True)
        collect = self.benchmark(attempt)
        collect.write()
        if attempt.index not in self.faults.broken:
            run = folder / "results" / self.place.run_id
            variant = self.variants[self.job.variant_of(attempt.index)]
            leave_output(variant, run / VARIANTS / self.job.folder_of(attempt.index))
        with running(collect.command, collect.environment, self._log(attempt)) as process:
            yield process

    def name(self, index: int) -> str:
        """An index and its variant."""
        return f"index {index}, {self.job.variant_of(index)}"

    def why(self, attempt: Attempt) -> str:
        """Why an attempt that is over has failed."""
        log = self._log(attempt)
        return f"{reason(text(log)).removeprefix('spectap: ')}; see {os.path.relpath(log)}"

    def _folder(self, attempt: Attempt) -> Path:
        return self.layout.pods / f"{attempt.index}-{attempt.number}"

    def _log(self, attempt: Attempt) -> Path:
        return self.layout.logs / f"index-{attempt.index}-{attempt.number}.log"
