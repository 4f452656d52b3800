"""The pods of a sweep's indexes: a server, and the benchmark that measures it."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from rehearsal.endpoints import Servers
from rehearsal.layout import Layout
from rehearsal.pod.as_process import BenchmarkProcess, Place, as_process
from rehearsal.pod.manifest import IndexedJob
from rehearsal.process.ports import await_listener
from rehearsal.process.processes import Process, reason, running, text
from rehearsal.sweep.controller import Attempt
from rehearsal.sweep.indexes import INDEX

_LISTENS_SECONDS: Final = 60.0


@dataclass(frozen=True)
class Pods:
    """All pods that a sweep may need."""

    job: IndexedJob
    entry_point: Sequence[str]
    place: Place
    """Where all of them run; the folders are those of none."""
    servers: Servers
    broken: frozenset[int]
    """Indexes whose server is not started."""
    layout: Layout
    _ended: dict[Attempt, str] = field(default_factory=dict)

    def benchmark(self, attempt: Attempt) -> BenchmarkProcess:
        """What measures. Its folders are its own, and empty. Raises RehearsalError."""
        folder = self._folder(attempt)
        place = replace(
            self.place,
            mounts={path: folder / path.strip("/") for path in self.place.mounts},
            variables={**self.place.variables, INDEX: str(attempt.index)},
        )
        return as_process(self.job.pod, self.entry_point, place)

    @contextlib.contextmanager
    def start(self, attempt: Attempt) -> Iterator[Process]:
        """Starts both and ends both; yields what measures. Raises RehearsalError."""
        benchmark = self.benchmark(attempt)
        shutil.rmtree(self._folder(attempt), ignore_errors=True)
        benchmark.write()
        with (
            self._serving(attempt),
            running(benchmark.command, benchmark.environment, self.log(attempt)) as process,
        ):
            yield process

    @contextlib.contextmanager
    def _serving(self, attempt: Attempt) -> Iterator[None]:
        """Starts the server and waits for it a while, lest a busy machine takes the benchmark's
        patience, which is short here."""
        if attempt.index in self.broken:
            yield
            return
        server = self.servers.by_variant[self.job.variant_of(attempt.index)]
        log = self.layout.logs / f"server-{attempt.index}-{attempt.number}.log"
        with running(server.command, server.environment, log) as process:
            await_listener(process, server.url, _LISTENS_SECONDS)
            yield
            if process.poll() is not None:
                self._ended[attempt] = f"its server ended: {_said(log)}"

    def name(self, index: int) -> str:
        """An index and its variant."""
        return f"index {index}, {self.job.variant_of(index)}"

    def _folder(self, attempt: Attempt) -> Path:
        return self.layout.pods / f"{attempt.index}-{attempt.number}"

    def log(self, attempt: Attempt) -> Path:
        """What the benchmark of an attempt says."""
        return self.layout.logs / f"index-{attempt.index}-{attempt.number}.log"

    def why(self, attempt: Attempt) -> str:
        """Why an attempt that is over has failed."""
        return self._ended.get(attempt) or _said(self.log(attempt))


def _said(log: Path) -> str:
    return f"{reason(text(log)).removeprefix('spectap: ')}; see {os.path.relpath(log)}"
