"""Isolated variants: an index each of one Job, with a server of its own or as a job without one.

An index that fails stops no other. It is not tried again, as the Job controller would: that is
tested where there is a real one (tests/cluster).
"""

import contextlib
import os
import shutil
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from experiment.cost.timeline import estimate
from experiment.runtimes import Workload
from experiment.variants import variants
from rehearsal import RehearsalError
from rehearsal.as_process import BenchmarkProcess, as_process
from rehearsal.aws import download_run
from rehearsal.manifest import IndexedJob, read_indexed_job
from rehearsal.processes import Process, ProcessError, await_health, reason, running, text
from rehearsal.setting import BENCHMARK_SECONDS, RECORDED_OUTPUT, Outcome, Servers, Setting
from spectap import golden
from spectap.names import INFERENCE_DEMO, INFERENCE_DEMO_LOG, VARIANTS

INDEX: Final = "JOB_COMPLETION_INDEX"
"""Kubernetes gives it to each container of an Indexed Job's pods."""
RECORDED: Final = Path(golden.__file__).with_name("jobs")
"""Reports and logs as ``inference_demo`` writes them, by mode. No device made their figures."""

_START_SECONDS: Final = "START_SECONDS"
_HEALTHY_SECONDS: Final = 60.0
_POLL_SECONDS: Final = 0.1


def isolated(setting: Setting) -> Outcome:
    """Measures the indexes, and brings the merged run. Raises RehearsalError or ProcessError."""
    job = read_indexed_job(setting.layout.manifests)
    are_jobs = setting.experiment.workload is Workload.JOB
    servers = None if are_jobs else setting.endpoints.servers(setting, job)
    pods = _Pods(setting, job, servers)
    reasons = pods.run()
    failed = tuple(f"{pods.name(index)}: {why}" for index, why in sorted(reasons.items()))
    with setting.console.stage("bring the merged run from the bucket") as stage:
        try:
            stage.result = download_run(setting.aws, setting.bucket, setting.run_dir)
        except RehearsalError as error:
            raise RehearsalError("; ".join((str(error), *failed))) from None
    return Outcome(
        setting.run_dir,
        differences=tuple(pods.differences(pods.benchmark(0))),
        endpoints=servers.description if servers else (f"none; {RECORDED_OUTPUT}",),
        failed=failed,
    )


@dataclass(frozen=True)
class _Pods:
    """The pods of the Job."""

    setting: Setting
    job: IndexedJob
    servers: Servers | None
    """None: the variants run as jobs."""
    _ends: dict[int, str] = field(default_factory=dict)
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
        """Runs all indexes; returns why some failed. Raises RehearsalError if it takes too long."""
        console, count = self.setting.console, self.job.indexes
        seconds = BENCHMARK_SECONDS * count
        deadline = time.monotonic() + seconds
        waiting, complete, failed = deque(range(count)), 0, dict[int, str]()
        live: dict[int, tuple[contextlib.ExitStack, Process, float]] = {}
        title = "run the sweep" if self.servers else "run the jobs"
        with console.stage(title) as stage, contextlib.ExitStack() as pods:
            while waiting or live:
                while waiting and len(live) < self.at_once:
                    index, begun = waiting.popleft(), time.monotonic()
                    pod = pods.enter_context(contextlib.ExitStack())
                    live[index] = pod, pod.enter_context(self._start(index)), begun
                    console.say(f"{self.name(index)}: started")
                for index, (pod, process, begun) in list(live.items()):
                    status = process.poll()
                    if status is None:
                        continue
                    del live[index]
                    pod.close()
                    if status == 0:
                        complete += 1
                        line = f"complete, {time.monotonic() - begun:.1f} s"
                    else:
                        failed[index] = self._ends.get(index) or _last_words(self._log(index))
                        line = f"{failed[index]}; failed"
                    console.say(f"{self.name(index)}: {line}")
                    stage.result = f"{complete} of {count} complete"
                    stage.progress = f"{stage.result}, {len(failed)} failed"
                if time.monotonic() > deadline:
                    raise RehearsalError(f"did not end within {seconds:.0f} s")
                time.sleep(_POLL_SECONDS)
        return failed

    def benchmark(self, index: int) -> BenchmarkProcess:
        """The process that measures or, of a job, collects. Raises RehearsalError."""
        folder, variables = self._folder(index), {INDEX: str(index)}
        if self.servers:
            variables[_START_SECONDS] = str(self.setting.endpoints.start_seconds)
        mounts = {path: folder / path.strip("/") for path in self.setting.layout.mounts}
        return as_process(self.job.pod, self.setting, self.servers, mounts, variables)

    @contextlib.contextmanager
    def _start(self, index: int) -> Iterator[Process]:
        """Starts a pod, in empty folders of its own, and ends it; yields what measures.

        Waits a while for the server, since the benchmark's patience is short here. A job has its
        output instead. Raises RehearsalError.
        """
        benchmark, folder = self.benchmark(index), self._folder(index)
        shutil.rmtree(folder, ignore_errors=True)
        benchmark.write()
        server: Process | None = None
        log = self.setting.layout.logs / f"server-{index}.log"
        with contextlib.ExitStack() as stack:
            if self.servers:
                stand_in = self.servers.by_variant[self.job.variant_of(index)]
                server = stack.enter_context(running(stand_in.command, stand_in.environment, log))
                with contextlib.suppress(ProcessError):
                    await_health(stand_in.url, server, stand_in.url, log, _HEALTHY_SECONDS)
            else:
                mode = variants(self.setting.experiment)[index].mode or "baseline"
                run = folder / "results" / self.setting.run_id
                output = run / VARIANTS / self.job.folder_of(index)
                output.mkdir(parents=True)
                for name in (INFERENCE_DEMO, INFERENCE_DEMO_LOG):
                    shutil.copyfile(RECORDED / f"{mode}{Path(name).suffix}", output / name)
            command, environment = benchmark.command, benchmark.environment
            yield stack.enter_context(running(command, environment, self._log(index)))
            if server and server.poll() is not None:
                self._ends[index] = f"its server ended: {_last_words(log)}"

    def name(self, index: int) -> str:
        return f"index {index}, {self.job.variant_of(index)}"

    def differences(self, first: BenchmarkProcess) -> Iterator[str]:
        yield f"{INDEX} and folders: each index has its own; those named here are of index 0"
        yield "an index that fails: not tried again"
        yield from first.differences
        if self.servers is None:
            yield f"generate: {RECORDED_OUTPUT}"
        else:
            yield "vllm: a process beside the benchmark, which is not started again if it ends"
        yield "fetch: left out, since nothing is compiled"
        if self.at_once != self.in_cluster:
            yield f"indexes at once: {self.at_once} in place of {self.in_cluster}"

    def _folder(self, index: int) -> Path:
        return self.setting.layout.pods / f"{index}"

    def _log(self, index: int) -> Path:
        return self.setting.layout.logs / f"index-{index}.log"


def _last_words(log: Path) -> str:
    return f"{reason(text(log)).removeprefix('spectap: ')}; see {os.path.relpath(log)}"
