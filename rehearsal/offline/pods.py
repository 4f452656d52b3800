"""The pods of a job's indexes: what prepares the prompts, what generates, and what collects."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from experiment.variants import Variant
from rehearsal.errors import RehearsalError
from rehearsal.layout import Layout
from rehearsal.offline.job import OfflineJob
from rehearsal.offline.nxdi.device import TRUTH, Truth
from rehearsal.offline.pod import Container, Plan
from rehearsal.pod.as_process import BenchmarkProcess, Place, as_process, here
from rehearsal.pod.manifest import Pod
from rehearsal.process.processes import Process, reason, running, text
from rehearsal.sweep.controller import Attempt
from rehearsal.sweep.faults import Faults
from rehearsal.sweep.indexes import INDEX
from spectap.config import Config

STUB: Final = Path(__file__).with_name("stub")
"""What stands in for NxDI's packages."""

RECORD: Final = "steps.jsonl"
"""In a pod's folder: what its golden NxDI did, answer by answer, by its own account."""

_ARTIFACT: Final = "/artifact"
_GENERATED: Final = ".generate"
"""How the name of the file ends that has an index's command, an argument a line."""


@dataclass(frozen=True)
class OfflinePods:
    """All pods that the Job may need."""

    job: OfflineJob
    variants: Mapping[str, Variant]
    truths: Mapping[str, Truth]
    """How each variant's golden NxDI decodes, by the variant's name."""
    entry_point: Sequence[str]
    place: Place
    """Where all of them run; the folders are those of none."""
    faults: Faults
    layout: Layout

    def benchmark(self, attempt: Attempt) -> BenchmarkProcess:
        """What collects. Raises RehearsalError."""
        return self._benchmark(self.job.collect, attempt)

    @contextlib.contextmanager
    def start(self, attempt: Attempt) -> Iterator[Process]:
        """Starts a pod and ends it. Its folders are its own, and empty. Raises RehearsalError."""
        shutil.rmtree(self._folder(attempt), ignore_errors=True)
        prompts = self._benchmark(self.job.prompts, attempt)
        collect = self.benchmark(attempt)
        for one in (prompts, collect):
            one.write()
        plan = Plan(
            [self._container("prompts", attempt, prompts)],
            [self._generate(attempt), self._container("collect", attempt, collect)],
        )
        path = self._folder(attempt) / "pod.json"
        plan.write(path)
        command = (sys.executable, "-m", "rehearsal.offline.pod", str(path))
        with running(command, self._own(), self.log(attempt)) as process:
            yield process

    def name(self, index: int) -> str:
        """An index and its variant."""
        return f"index {index}, {self.job.variant_of(index)}"

    def log(self, attempt: Attempt, container: str = "pod") -> Path:
        """What a container of an attempt says."""
        name = f"index-{attempt.index}-{attempt.number}-{container}.log"
        return self.layout.logs / name

    def why(self, attempt: Attempt) -> str:
        """Why an attempt that is over has failed."""
        log = self.log(attempt)
        return f"{reason(text(log))}; see {os.path.relpath(log)}"

    def _folder(self, attempt: Attempt) -> Path:
        return self.layout.pods / f"{attempt.index}-{attempt.number}"

    def _own(self) -> dict[str, str]:
        """The environment of what this machine runs itself."""
        return {**os.environ, "PYTHONPATH": str(self.layout.root)}

    def _benchmark(self, pod: Pod, attempt: Attempt) -> BenchmarkProcess:
        folder = self._folder(attempt)
        place = replace(
            self.place,
            mounts={path: folder / path.strip("/") for path in self.place.mounts},
            variables={**self.place.variables, INDEX: str(attempt.index)},
        )
        return as_process(pod, self.entry_point, place)

    def _container(self, name: str, attempt: Attempt, process: BenchmarkProcess) -> Container:
        log = str(self.log(attempt, name))
        return Container(name, process.command, process.environment, log)

    def _generate(self, attempt: Attempt) -> Container:
        """The runtime's container, whose files are written. Raises RehearsalError."""
        pod, folder = self.job.generate, self._folder(attempt)
        if pod.command is None:
            raise RehearsalError("the container generate has no command of its own")
        mounts = {path: folder / path.strip("/") for path in sorted(pod.mounts, reverse=True)}
        # Another volume than the benchmark's.
        mounts["/tmp"] = folder / "generate" / "tmp"
        variant = self.variants[self.job.variant_of(attempt.index)]
        self._write(pod, variant, mounts)
        told = {INDEX: str(attempt.index), "RUN_ID": self.place.run_id}
        mapped = {name: str(here(value, mounts)) for name, value in pod.environment.items()}
        packages = [self.layout.root, *([] if attempt.index in self.faults.broken else [STUB])]
        golden = {
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
            "PYTHONPATH": os.pathsep.join(map(str, packages)),
            TRUTH: str(self._truth(variant, attempt)),
        }
        return Container(
            "generate",
            [str(here(word, mounts)) if word.startswith("/") else word for word in pod.command],
            mapped | told | golden,
            str(self.log(attempt, "generate")),
            str(here(pod.directory or "/", mounts)),
        )

    def _write(self, pod: Pod, variant: Variant, mounts: Mapping[str, Path]) -> None:
        """Its folders, an artifact in name, and the files that ConfigMaps bring but for the
        benchmark's own configuration."""
        for folder in mounts.values():
            folder.mkdir(parents=True, exist_ok=True)
        for part in variant.runtime.artifact_parts(variant):
            (mounts[_ARTIFACT] / part).mkdir(parents=True, exist_ok=True)
        for path, content in pod.files.items():
            file = here(path, mounts)
            if path.endswith(_GENERATED):
                lines = content.decode().splitlines()
                mapped = [
                    str(here(line, mounts)) if line.startswith("/") else line for line in lines
                ]
                file.write_text("\n".join([*mapped, ""]), encoding="utf-8")
            elif not file.exists():
                file.write_bytes(content)

    def _truth(self, variant: Variant, attempt: Attempt) -> Path:
        """What its golden NxDI knows, and where it leaves a record of its own.

        One that is to be killed in the middle stops there, lest it has ended before.
        """
        path = self._folder(attempt) / "truth.json"
        dies = attempt.index in self.faults.killed and attempt.number == 1
        truth = replace(self.truths[variant.name], record=str(path.with_name(RECORD)))
        replace(truth, hangs_after=self._half if dies else None).write(path)
        return path

    @property
    def _half(self) -> int:
        """Answers of half of the rounds, with those to warm up and to control."""
        pod = self.job.collect
        told = Config.model_validate_json(pod.files[pod.environment["BENCHMARK_CONFIG"]])
        capped = self.place.caps.applied(told)
        turns = capped.load.rounds.at_most * len(capped.test_cases)
        return turns * capped.load.points[0].requests // 2 + len(capped.test_cases) + 1
