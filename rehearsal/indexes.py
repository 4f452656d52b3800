"""Isolated variants: an index each of one Job, with a server of its own or as a job without one.

Indexes start, are retried and given up as by the Job controller, with ``completionMode: Indexed``,
``backoffLimitPerIndex`` and rules of ``podFailurePolicy`` with ``FailIndex``: each is retried
alone, or not at all, and one that fails for good stops no other. Kubernetes waits ten seconds and
more before it retries; here an index that failed waits for all that have not been tried.
"""

from __future__ import annotations

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
from typing import Final

from experiment.cost.durations import estimate
from experiment.runtimes import Workload
from experiment.variants import variants
from rehearsal import RehearsalError
from rehearsal.aws import checks
from rehearsal.pod.as_process import BenchmarkProcess, as_process
from rehearsal.pod.manifest import IndexedJob, read_indexed_job
from rehearsal.processes import Process, ProcessError, await_health, reason, running, text
from rehearsal.setting import BENCHMARK_SECONDS, RECORDED_OUTPUT, Outcome, Servers, Setting
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

    @property
    def description(self) -> tuple[str, ...]:
        """One line for each fault."""
        killed = (f"faults: index {i} killed once, in the middle" for i in sorted(self.killed))
        broken = (f"faults: index {i} without a server, or output" for i in sorted(self.broken))
        return (*killed, *broken)


NO_FAULTS: Final = Faults()


@dataclass(frozen=True)
class Attempt:
    """One pod of an index."""

    index: int
    number: int = 1
    """Counted from 1."""


@dataclass(frozen=True)
class Event:
    """A pod has started, is still running, or has ended and is gone."""

    attempt: Attempt
    process: Process
    """The pod's main process."""
    started: bool = False
    retried: bool = False
    """Whether it has failed and is tried again."""

    @property
    def status(self) -> int | None:
        """Of a pod that has ended; -n if signal n killed it."""
        return self.process.returncode


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
    given_up = _run(pods)
    failed = tuple(f"{pods.name(index)}: {why}" for index, why in sorted(given_up.items()))
    given_up_variants = {job.variant_of(index) for index in given_up}
    mergeable = [
        variant.name
        for variant in variants(setting.experiment)
        if variant.name not in given_up_variants and variant.baseline not in given_up_variants
    ]
    if not mergeable:
        raise RehearsalError(f"no variant is complete with its baseline: {'; '.join(failed)}")
    first = pods.benchmark(Attempt(0))
    with setting.console.stage("bring the merged run from the bucket") as stage:
        stage.result = checks.bring(setting.aws, first.bucket, setting.run_dir)
    with setting.console.stage("compare the merged run with the variants' own") as stage:
        stage.result = checks.merged_holds(setting.run_dir, mergeable)
    absent = {(VARIANT_DIMENSION, name) for name in given_up_variants}
    absent |= {(LOAD_DIMENSION, name) for name in first.left_out}
    return Outcome(
        setting.run_dir,
        differences=tuple(_differences(pods, first)),
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

    @property
    def in_cluster(self) -> int:
        """How many indexes the cluster runs at the same time."""
        if self.servers is None:
            return self.job.parallelism
        return min(self.job.parallelism, estimate(self.setting.experiment).at_once)

    @property
    def at_once(self) -> int:
        """How many run here at the same time."""
        return min(self.in_cluster, self.setting.endpoints.at_once or os.cpu_count() or 1)

    def benchmark(self, attempt: Attempt) -> BenchmarkProcess:
        """What measures or, of a job, collects. Raises RehearsalError."""
        folder, variables = self._folder(attempt), {INDEX: str(attempt.index)}
        if self.servers:
            variables[_START_SECONDS] = str(self.setting.endpoints.start_seconds)
        mounts = {path: folder / path.strip("/") for path in self.setting.layout.mounts}
        return as_process(self.job.pod, self.setting, self.servers, mounts, variables)

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
        """Starts the server and waits a while, since the benchmark's patience is short here.

        A job has its output instead.
        """
        if attempt.index in self.faults.broken:
            yield
        elif self.servers is None:
            self._leave_output(attempt)
            yield
        else:
            server = self.servers.by_variant[self.job.variant_of(attempt.index)]
            log = self.setting.layout.logs / f"server-{attempt.index}-{attempt.number}.log"
            with running(server.command, server.environment, log) as process:
                with contextlib.suppress(ProcessError):
                    await_health(server.url, process, server.url, log, _HEALTHY_SECONDS)
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
        return checks.has_records(self.setting.aws, bucket, self.setting.run_id, folder)

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
    """Runs all indexes; returns why some failed for good. Prints a line for each event."""
    job, console = pods.job, pods.setting.console
    since: dict[Attempt, float] = {}
    given_up: dict[int, str] = {}
    with (
        console.stage("run the sweep" if pods.servers else "run the jobs") as stage,
        contextlib.closing(
            control(
                job.indexes,
                job.retries,
                pods.at_once,
                pods.start,
                BENCHMARK_SECONDS * job.indexes,
                job.final,
            )
        ) as events,
    ):
        complete = 0
        for event in events:
            attempt, status = event.attempt, event.status
            if event.started:
                since[attempt] = time.monotonic()
                again = f" again, attempt {attempt.number}" if attempt.number > 1 else ""
                event_text = f"started{again}"
            elif status is None:
                if pods.to_kill(attempt):
                    event.process.kill()
                continue
            elif status == 0:
                complete += 1
                event_text = f"complete, {time.monotonic() - since.pop(attempt):.1f} s"
            else:
                del since[attempt]
                killed = f"killed ({signal.Signals(-status).name})" if status < 0 else None
                why = killed or pods.why(attempt)
                if not event.retried:
                    given_up[attempt.index] = why
                event_text = f"{why}; {'will be retried' if event.retried else 'failed for good'}"
            console.say(f"{pods.name(attempt.index)}: {event_text}")
            ended = f"{complete} of {job.indexes} complete, {len(given_up)} failed"
            stage.progress = f"{ended}, {len(since)} running"
        stage.result = f"{complete} of {job.indexes} complete"
    return given_up


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
