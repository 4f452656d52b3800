"""All variants beside each other: services that stand, and one benchmark that asks them in turn."""

from __future__ import annotations

import signal
import subprocess

from charts.names import benchmark_pod
from rehearsal.aws import checks
from rehearsal.errors import RehearsalError
from rehearsal.outcome import Measured
from rehearsal.pod.as_process import BenchmarkProcess, as_process
from rehearsal.pod.manifest import read_pod
from rehearsal.process.processes import running
from rehearsal.setting import BENCHMARK_SECONDS, Setting
from spectap.names import LOAD_DIMENSION, VARIANT_DIMENSION


def comparison(setting: Setting) -> Measured:
    """Measures all variants in one run. Raises RehearsalError or ProcessError."""
    console, layout, aws = setting.console, setting.layout, setting.aws
    serving = setting.endpoints.serving(
        setting.experiment, layout, setting.serving_environment, console
    )
    with serving as endpoints:
        place = setting.place(endpoints.urls, beside=endpoints.beside)
        benchmark = as_process(
            read_pod(layout.manifests, benchmark_pod(setting.experiment)),
            setting.entry_point,
            place,
        )
        with console.stage("run the benchmark", shows_itself=True):
            _run(setting, benchmark, BENCHMARK_SECONDS * len(endpoints.urls))
    run_dir = layout.mounts["/results"] / setting.run_id
    with console.stage("compare the bucket with the results") as stage:
        stage.found = checks.bucket_holds(aws, benchmark.bucket, run_dir)
    absent = frozenset((LOAD_DIMENSION, name) for name in benchmark.left_out)
    own = frozenset((VARIANT_DIMENSION, variant.name) for variant in endpoints.beside)
    return Measured(run_dir, benchmark.differences, endpoints.said, absent, own=own)


def _run(setting: Setting, benchmark: BenchmarkProcess, seconds: float) -> None:
    benchmark.write()
    with running(
        benchmark.command,
        benchmark.environment,
        setting.layout.logs / "benchmark.log",
        errors_on_terminal=True,
    ) as process:
        try:
            status = process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise RehearsalError(f"did not end within {seconds:.0f} s") from None
    if status < 0:
        raise RehearsalError(f"the benchmark was killed ({signal.Signals(-status).name})")
    if status != 0:
        raise RehearsalError(f"the benchmark ended with status {status}, for the reason above")
