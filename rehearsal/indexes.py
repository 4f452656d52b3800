"""Isolated variants: an index each of one Job, with a server of its own or as a job without one.

Indexes start, are retried and given up as by the Job controller, with ``completionMode: Indexed``,
``backoffLimitPerIndex`` and rules of ``podFailurePolicy`` with ``FailIndex``: each is retried
alone, or not at all, and one that fails for good stops no other. Kubernetes waits ten seconds and
more before it retries; here an index that failed waits for all that have not been tried.
"""

import contextlib
import os
import shutil
import signal
import time
from collections import deque
from collections.abc import Callable, Collection, Generator, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

from experiment.cost.durations import estimate
from experiment.runtimes import Workload
from experiment.variants import variants
from rehearsal import RehearsalError
from rehearsal.as_process import BenchmarkProcess, as_process
from rehearsal.aws import download_run, has_records
from rehearsal.manifest import IndexedJob, read_indexed_job
from rehearsal.processes import Process, ProcessError, await_health, reason, running, text
from rehearsal.setting import BENCHMARK_SECONDS, RECORDED_OUTPUT, Outcome, Servers, Setting
from spectap import golden
from spectap.names import (
    INFERENCE_DEMO,
    INFERENCE_DEMO_LOG,
    LOAD_DIMENSION,
    VARIANT_DIMENSION,
    VARIANTS,
)

INDEX: Final = "JOB_COMPLETION_INDEX"
"""Kubernetes gives it to each container of an Indexed Job's pods."""
RECORDED: Final = Path(golden.__file__).with_name("jobs")
"""Reports and logs as ``inference_demo`` writes them, by mode. No device made their figures."""

_START_SECONDS: Final = "START_SECONDS"
_HEALTHY_SECONDS: Final = 60.0
_POLL_SECONDS: Final = 0.1


@dataclass(frozen=True)
class Faults:
    """Indexes to which something happens; by default none."""

    killed: frozenset[int] = frozenset()
    """The benchmark's first attempt is killed as soon as the bucket has one of its turns."""
    broken: frozenset[int] = frozenset()
    """The server never starts; a job leaves no output."""

    def check(self, indexes: int) -> None:
        """Raises RehearsalError if not all of them are of so many indexes; 0: there are none."""
        for option, chosen in (("--kill", self.killed), ("--break", self.broken)):
            if unknown := sorted(chosen.difference(range(indexes))):
                available = f"the indexes 0 to {indexes - 1}" if indexes else "no indexes"
                raise RehearsalError(f"{option} {unknown[0]}: the experiment has {available}")


NO_FAULTS: Final = Faults()


@dataclass(frozen=True)
class Attempt:
    """One pod of an index."""

    index: int
    number: int = 1


class Event(NamedTuple):
    """A pod has started, is still running, or has ended and is gone."""

    attempt: Attempt
    process: Process
    """The pod's main process, whose ``returncode`` is -n if signal n killed it."""
    started: bool = False
    retried: bool = False
    """Whether it has failed and is tried again."""


def control(
    indexes: int,
    retries: int,
    at_once: int,
    start: Callable[[Attempt], AbstractContextManager[Process]],
    seconds: float,
    final: Collection[int] = (),
) -> Generator[Event]:
    """Runs all indexes, at most ``at_once`` at the same time, each at most 1 + ``retries`` times.

    One that ends with a status in ``final`` is not tried again. ``start`` starts a pod, whose main
    process it gives, and ends what is left of it. Raises RehearsalError if that takes longer than
    ``seconds``.
    """
    deadline = time.monotonic() + seconds
    waiting = deque(map(Attempt, range(indexes)))
    live: dict[Attempt, tuple[contextlib.ExitStack, Process]] = {}
    with contextlib.ExitStack() as pods:
        while waiting or live:
            while waiting and len(live) < at_once:
                attempt = waiting.popleft()
                pod = pods.enter_context(contextlib.ExitStack())
                process = pod.enter_context(start(attempt))
                live[attempt] = pod, process
                yield Event(attempt, process, started=True)
            for attempt, (pod, process) in list(live.items()):
                status = process.poll()
                if status is None:
                    yield Event(attempt, process)
                    continue
                del live[attempt]
                pod.close()
                retried = status != 0 and attempt.number <= retries and status not in final
                yield Event(attempt, process, retried=retried)
                if retried:
                    waiting.append(Attempt(attempt.index, attempt.number + 1))
            if time.monotonic() > deadline:
                raise RehearsalError(f"did not end within {seconds:.0f} s")
            time.sleep(_POLL_SECONDS)


def isolated(setting: Setting, faults: Faults) -> Outcome:
    """Measures all variants, an index each, and brings the merged run.

    Raises RehearsalError or ProcessError.
    """
    are_jobs = setting.experiment.workload is Workload.JOB
    if are_jobs and faults.killed:
        raise RehearsalError("--kill: a job leaves nothing in the middle to go on from")
    job = read_indexed_job(setting.layout.manifests)
    servers = None if are_jobs else setting.endpoints.servers(setting, job)
    pods = _Pods(setting, job, servers, faults)
    given_up = pods.run()
    failed = tuple(f"{pods.name(index)}: {why}" for index, why in sorted(given_up.items()))
    first = pods.benchmark(Attempt(0))
    with setting.console.stage("bring the merged run from the bucket") as stage:
        try:
            stage.result = download_run(setting.aws, setting.bucket, setting.run_dir)
        except RehearsalError as error:
            raise RehearsalError("; ".join((str(error), *failed))) from None
    absent = {(VARIANT_DIMENSION, job.variant_of(index)) for index in given_up}
    absent |= {(LOAD_DIMENSION, name) for name in first.left_out}
    return Outcome(
        setting.run_dir,
        differences=tuple(pods.differences(first)),
        endpoints=servers.description if servers else (f"none; {RECORDED_OUTPUT}",),
        absent=frozenset(absent),
        failed=failed,
    )


@dataclass(frozen=True)
class _Pods:
    """All pods that the Job may need."""

    setting: Setting
    job: IndexedJob
    servers: Servers | None
    """None: the variants run as jobs."""
    faults: Faults
    _ends: dict[Attempt, str] = field(default_factory=dict)
    """The end of each server that ended by itself."""

    @property
    def in_cluster(self) -> int:
        if self.servers is None:
            return self.job.parallelism
        return min(self.job.parallelism, estimate(self.setting.experiment).at_once)

    @property
    def at_once(self) -> int:
        return min(self.in_cluster, self.setting.endpoints.at_once or os.cpu_count() or 1)

    def run(self) -> dict[int, str]:
        """Runs all indexes; returns why some failed for good. Prints a line for each event."""
        job, console = self.job, self.setting.console
        begun: dict[Attempt, float] = {}
        given_up: dict[int, str] = {}
        complete, seconds = 0, BENCHMARK_SECONDS * job.indexes
        events = control(job.indexes, job.retries, self.at_once, self._start, seconds, job.final)
        with (
            console.stage("run the sweep" if self.servers else "run the jobs") as stage,
            contextlib.closing(events),
        ):
            for event in events:
                attempt, status = event.attempt, event.process.returncode
                if event.started:
                    begun[attempt] = time.monotonic()
                    again = f" again, attempt {attempt.number}" if attempt.number > 1 else ""
                    line = f"started{again}"
                elif status is None:
                    if self._is_to_be_killed(attempt):
                        event.process.kill()
                    continue
                elif status == 0:
                    complete += 1
                    line = f"complete, {time.monotonic() - begun[attempt]:.1f} s"
                else:
                    why = self._ends.get(attempt) or _last_words(self._log(attempt))
                    if status < 0:
                        why = f"killed ({signal.Signals(-status).name})"
                    if not event.retried:
                        given_up[attempt.index] = why
                    line = f"{why}; {'will be retried' if event.retried else 'failed for good'}"
                console.say(f"{self.name(attempt.index)}: {line}")
                stage.result = f"{complete} of {job.indexes} complete"
                stage.progress = f"{stage.result}, {len(given_up)} failed"
        return given_up

    def benchmark(self, attempt: Attempt) -> BenchmarkProcess:
        """The process that measures or, of a job, collects. Raises RehearsalError."""
        folder, variables = self._folder(attempt), {INDEX: str(attempt.index)}
        if self.servers:
            variables[_START_SECONDS] = str(self.setting.endpoints.start_seconds)
        mounts = {path: folder / path.strip("/") for path in self.setting.layout.mounts}
        return as_process(self.job.pod, self.setting, self.servers, mounts, variables)

    @contextlib.contextmanager
    def _start(self, attempt: Attempt) -> Iterator[Process]:
        """Starts a pod, in empty folders of its own, and ends it; yields what measures.

        Waits a while for the server, since the benchmark's patience is short here. A job has its
        output instead. Raises RehearsalError.
        """
        benchmark, folder = self.benchmark(attempt), self._folder(attempt)
        shutil.rmtree(folder, ignore_errors=True)
        benchmark.write()
        server: Process | None = None
        log = self.setting.layout.logs / f"server-{attempt.index}-{attempt.number}.log"
        with contextlib.ExitStack() as stack:
            is_broken = attempt.index in self.faults.broken
            if self.servers and not is_broken:
                stand_in = self.servers.by_variant[self.job.variant_of(attempt.index)]
                server = stack.enter_context(running(stand_in.command, stand_in.environment, log))
                with contextlib.suppress(ProcessError):
                    await_health(stand_in.url, server, stand_in.url, log, _HEALTHY_SECONDS)
            elif not is_broken:
                mode = variants(self.setting.experiment)[attempt.index].mode or "baseline"
                run = folder / "results" / self.setting.run_id
                output = run / VARIANTS / self.job.folder_of(attempt.index)
                output.mkdir(parents=True)
                for name in (INFERENCE_DEMO, INFERENCE_DEMO_LOG):
                    shutil.copyfile(RECORDED / f"{mode}{Path(name).suffix}", output / name)
            command, environment = benchmark.command, benchmark.environment
            yield stack.enter_context(running(command, environment, self._log(attempt)))
            if server and server.poll() is not None:
                self._ends[attempt] = f"its server ended: {_last_words(log)}"

    def _is_to_be_killed(self, attempt: Attempt) -> bool:
        if attempt.index not in self.faults.killed or attempt.number > 1:
            return False
        setting, folder = self.setting, self.job.folder_of(attempt.index)
        return has_records(setting.aws, setting.bucket, setting.run_id, folder)

    def name(self, index: int) -> str:
        return f"index {index}, {self.job.variant_of(index)}"

    def differences(self, first: BenchmarkProcess) -> Iterator[str]:
        yield f"{INDEX} and folders: each index has its own; those named here are of index 0"
        yield "folders: empty in each attempt"
        yield from first.differences
        if self.servers is None:
            yield f"generate: {RECORDED_OUTPUT}"
        else:
            yield "vllm: a process beside the benchmark, which is not started again if it ends"
        yield "fetch: left out, since nothing is compiled"
        if self.at_once != self.in_cluster:
            yield f"indexes at once: {self.at_once} in place of {self.in_cluster}"
        for index in sorted(self.faults.killed):
            yield f"faults: index {index} killed once, in the middle"
        for index in sorted(self.faults.broken):
            yield f"faults: index {index} without a server, or output"

    def _folder(self, attempt: Attempt) -> Path:
        return self.setting.layout.pods / f"{attempt.index}-{attempt.number}"

    def _log(self, attempt: Attempt) -> Path:
        return self.setting.layout.logs / f"index-{attempt.index}-{attempt.number}.log"


def _last_words(log: Path) -> str:
    return f"{reason(text(log)).removeprefix('spectap: ')}; see {os.path.relpath(log)}"
