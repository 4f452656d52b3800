"""Isolated variants: an index each of one Job, with a server of its own or as a job without one."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import time
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from deployment.console import Console, Stage
from experiment.cost.durations import estimate
from experiment.runtimes import Workload
from experiment.variants import variants
from rehearsal import RehearsalError, merged
from rehearsal.controller import Attempt, control
from rehearsal.outcome import Outcome
from rehearsal.pod.as_process import BenchmarkProcess, Sandbox, as_process
from rehearsal.pod.manifest import IndexedJob, read_indexed_job
from rehearsal.processes import Process, await_listener, reason, running, text
from rehearsal.setting import BENCHMARK_SECONDS, Servers, Setting
from spectap.names import (
    INFERENCE_DEMO,
    INFERENCE_DEMO_LOG,
    LOAD_DIMENSION,
    VARIANT_DIMENSION,
    VARIANTS,
)

INDEX: Final = "JOB_COMPLETION_INDEX"
"""Kubernetes gives it to each container of an Indexed Job's pods."""
RECORDED: Final = Path(__file__).with_name("recorded")
"""Reports and logs as ``inference_demo`` writes them, by mode. No device made their figures."""
RECORDED_OUTPUT: Final = "an output of inference_demo that no device made"

_START_SECONDS: Final = "START_SECONDS"
_LISTENS_SECONDS: Final = 60.0


@dataclass(frozen=True)
class Faults:
    """Indexes to which something happens; by default none."""

    killed: frozenset[int] = frozenset()
    """The benchmark's first attempt is killed as soon as the bucket has one of its turns."""
    broken: frozenset[int] = frozenset()
    """The server never starts; a job leaves no output."""

    def check(self, indexes: int) -> None:
        """Raises RehearsalError if not all of them are of so many indexes; 0: there are none.

        Nor can one index have both faults: a broken one never has records.
        """
        for option, chosen in (("--kill", self.killed), ("--break", self.broken)):
            if unknown := sorted(index for index in chosen if not 0 <= index < indexes):
                indexes_available = (
                    f"the experiment has the indexes 0 to {indexes - 1}"
                    if indexes
                    else "the experiment has neither a sweep nor jobs"
                )
                raise RehearsalError(f"{option} {unknown[0]}: {indexes_available}")
        if both := sorted(self.killed & self.broken):
            raise RehearsalError(
                f"--kill {both[0]}: must not be that of --break too, since a broken index has no "
                "middle to be killed in"
            )

    @property
    def description(self) -> tuple[str, ...]:
        """One line for each fault."""
        return (
            *(f"faults: index {index} killed once, in the middle" for index in sorted(self.killed)),
            *(
                f"faults: index {index} without a server, or without output"
                for index in sorted(self.broken)
            ),
        )


NO_FAULTS: Final = Faults()


def isolated(setting: Setting, faults: Faults) -> Outcome:
    """Measures all variants, an index each, and brings the merged run.

    Raises RehearsalError or ProcessError.
    """
    are_jobs = setting.experiment.workload is Workload.JOB
    if are_jobs and faults.killed:
        raise RehearsalError("--kill: a job leaves nothing in the middle to go on from")
    job = read_indexed_job(setting.layout.manifests)
    measured = [job.variant_of(index) for index in range(job.indexes)]
    expected = [variant.name for variant in variants(setting.experiment)]
    if measured != expected:
        raise RehearsalError(
            f"the Job measures {', '.join(measured)}; the experiment has {', '.join(expected)}"
        )
    servers, variables = None, {}
    if not are_jobs:
        servers = setting.endpoints.servers(setting, job)
        variables = {_START_SECONDS: str(setting.endpoints.start_seconds)}
    sandbox = setting.sandbox(servers, variables)
    if are_jobs:
        sandbox = replace(sandbox, stand_in=RECORDED_OUTPUT)
    pods = _Pods(setting, job, sandbox, servers, faults)
    given_up = _run(pods)
    failed = tuple(f"{pods.name(index)}: {why}" for index, why in sorted(given_up.items()))
    mergeable = _mergeable(setting, {job.variant_of(index) for index in given_up})
    if not mergeable:
        raise RehearsalError(f"no variant is complete with its baseline: {'; '.join(failed)}")
    first = pods.benchmark(Attempt(0))
    with setting.console.stage("bring the merged run from the bucket") as stage:
        stage.result = merged.bring(setting.aws, first.bucket, setting.run_dir)
    with setting.console.stage("compare the merged run with the variants' own") as stage:
        stage.result = merged.holds_all(setting.run_dir, mergeable)
    absent = {(VARIANT_DIMENSION, job.variant_of(index)) for index in given_up}
    absent |= {(LOAD_DIMENSION, name) for name in first.left_out}
    return Outcome(
        setting.run_dir,
        differences=tuple(_differences(pods, first)),
        endpoints=servers.description if servers else (f"none; {RECORDED_OUTPUT}",),
        absent=frozenset(absent),
        failed=failed,
        load=None if servers else "none; a job generates one answer after another",
    )


def _mergeable(setting: Setting, failed: Collection[str]) -> list[str]:
    """The variants that can be compared: complete, as is their baseline."""
    return [
        variant.name
        for variant in variants(setting.experiment)
        if variant.name not in failed and variant.baseline not in failed
    ]


@dataclass(frozen=True)
class _Pods:
    """All pods that the Job may need."""

    setting: Setting
    job: IndexedJob
    sandbox: Sandbox
    """Where all of them run; the folders are those of none."""
    servers: Servers | None
    """None: the variants run as jobs."""
    faults: Faults
    _ends: dict[Attempt, str] = field(default_factory=dict)

    @property
    def in_cluster(self) -> int:
        """How many indexes the cluster runs at the same time."""
        if self.servers is None:
            return self.job.parallelism
        return min(self.job.parallelism, estimate(self.setting.experiment).at_once)

    @property
    def at_once(self) -> int:
        """How many run here at the same time."""
        if self.servers is None:
            return self.in_cluster
        return min(self.in_cluster, self.setting.endpoints.at_once or os.cpu_count() or 1)

    def benchmark(self, attempt: Attempt) -> BenchmarkProcess:
        """What measures or, of a job, collects. Raises RehearsalError."""
        folder = self._folder(attempt)
        sandbox = replace(
            self.sandbox,
            mounts={path: folder / path.strip("/") for path in self.sandbox.mounts},
            variables={**self.sandbox.variables, INDEX: str(attempt.index)},
        )
        return as_process(self.job.pod, self.setting.entry_point, sandbox)

    @contextlib.contextmanager
    def start(self, attempt: Attempt) -> Iterator[Process]:
        """Starts a pod, in empty folders of its own, and ends it; yields what measures.

        Raises RehearsalError.
        """
        benchmark = self.benchmark(attempt)
        shutil.rmtree(self._folder(attempt), ignore_errors=True)
        benchmark.write()
        with (
            self._serving(attempt),
            running(benchmark.command, benchmark.environment, self._log(attempt)) as process,
        ):
            yield process

    @contextlib.contextmanager
    def _serving(self, attempt: Attempt) -> Iterator[None]:
        """Starts the server and waits a while for it: on a busy machine it must not take the
        benchmark's patience, which is short here. A job has its output instead."""
        if attempt.index in self.faults.broken:
            yield
        elif self.servers is None:
            self._leave_output(attempt)
            yield
        else:
            server = self.servers.by_variant[self.job.variant_of(attempt.index)]
            log = self.setting.layout.logs / f"server-{attempt.index}-{attempt.number}.log"
            with running(server.command, server.environment, log) as process:
                await_listener(process, server.url, _LISTENS_SECONDS)
                yield
                if process.poll() is not None:
                    self._ends[attempt] = f"its server ended: {_last_words(log)}"

    def _leave_output(self, attempt: Attempt) -> None:
        """Leaves in the variant's folder what ``inference_demo`` would. Raises OSError."""
        mode = variants(self.setting.experiment)[attempt.index].mode or "baseline"
        run = self._folder(attempt) / "results" / self.setting.run_id
        folder = run / VARIANTS / self.job.folder_of(attempt.index)
        folder.mkdir(parents=True)
        for name in (INFERENCE_DEMO, INFERENCE_DEMO_LOG):
            shutil.copyfile(RECORDED / f"{mode}{Path(name).suffix}", folder / name)

    def to_kill(self, attempt: Attempt) -> bool:
        """Whether this attempt is to be killed now."""
        if attempt.index not in self.faults.killed or attempt.number > 1:
            return False
        bucket, folder = self.benchmark(attempt).bucket, self.job.folder_of(attempt.index)
        return merged.has_records(self.setting.aws, bucket, self.setting.run_id, folder)

    def name(self, index: int) -> str:
        """An index and its variant."""
        return f"index {index}, {self.job.variant_of(index)}"

    def why(self, attempt: Attempt) -> str:
        """Why an attempt that is over has failed."""
        return self._ends.get(attempt) or _last_words(self._log(attempt))

    def _folder(self, attempt: Attempt) -> Path:
        return self.setting.layout.pods / f"{attempt.index}-{attempt.number}"

    def _log(self, attempt: Attempt) -> Path:
        return self.setting.layout.logs / f"index-{attempt.index}-{attempt.number}.log"


def _last_words(log: Path) -> str:
    return f"{reason(text(log)).removeprefix('spectap: ')}; see {os.path.relpath(log)}"


def _run(pods: _Pods) -> dict[int, str]:
    """Runs all indexes; returns why some failed for good."""
    job, title = pods.job, "run the sweep" if pods.servers else "run the jobs"
    with pods.setting.console.stage(title) as stage:
        progress = _Progress(pods, pods.setting.console, stage)
        seconds = BENCHMARK_SECONDS * job.indexes
        control(job.indexes, job.retries, pods.at_once, pods.start, progress, seconds, job.final)
        stage.result = f"{job.indexes - len(progress.given_up)} of {job.indexes} complete"
    return progress.given_up


class _Progress:
    """Prints a line for each event, and kills the attempts that are to be killed."""

    def __init__(self, pods: _Pods, console: Console, stage: Stage) -> None:
        self._pods, self._console, self._stage = pods, console, stage
        self._since: dict[Attempt, float] = {}
        self._complete = 0
        self.given_up: dict[int, str] = {}
        """Why an index failed for good."""

    def started(self, attempt: Attempt) -> None:
        self._since[attempt] = time.monotonic()
        again = f" again, attempt {attempt.number}" if attempt.number > 1 else ""
        self._print(attempt, f"started{again}")

    def runs(self, attempt: Attempt, process: Process) -> None:
        if self._pods.to_kill(attempt):
            process.kill()

    def complete(self, attempt: Attempt) -> None:
        seconds = time.monotonic() - self._since.pop(attempt)
        self._complete += 1
        self._print(attempt, f"complete, {seconds:.1f} s")

    def failed(self, attempt: Attempt, status: int, *, retried: bool) -> None:
        del self._since[attempt]
        killed = f"killed ({signal.Signals(-status).name})" if status < 0 else None
        why = killed or self._pods.why(attempt)
        if not retried:
            self.given_up[attempt.index] = why
        self._print(attempt, f"{why}; {'will be retried' if retried else 'failed for good'}")

    def _print(self, attempt: Attempt, event: str) -> None:
        self._console.say(f"{self._pods.name(attempt.index)}: {event}")
        job = self._pods.job
        running = ", ".join(
            job.variant_of(running_attempt.index) for running_attempt in self._since
        )
        given_up = f", {len(self.given_up)} failed" if self.given_up else ""
        self._stage.progress = (
            f"{self._complete} of {job.indexes} complete{given_up}; running: {running}"
        )


def _differences(pods: _Pods, first: BenchmarkProcess) -> Iterator[str]:
    yield f"{INDEX} and folders: each index has its own; those named here are of index 0"
    yield "folders: empty in each attempt"
    yield from first.differences
    if pods.servers is None:
        yield f"generate: {RECORDED_OUTPUT}"
    else:
        yield "vllm: a process beside the benchmark, which is not started again if it ends"
    yield "fetch: left out, since nothing is compiled"
    if pods.at_once != pods.in_cluster:
        yield f"indexes at once: {pods.at_once} in place of {pods.in_cluster}"
    yield from pods.faults.description
