"""The whole experiment on this machine, stage by stage."""

from __future__ import annotations

import contextlib
import signal
import subprocess
from datetime import UTC, datetime
from typing import Final

from experiment import Experiment, load
from rehearsal.aws import checks
from rehearsal.aws.cdk import Cdk
from rehearsal.aws.client import embedded_aws
from rehearsal.console import Console
from rehearsal.endpoints import Endpoints
from rehearsal.errors import RehearsalError
from rehearsal.layout import Layout
from rehearsal.outcome import Outcome
from rehearsal.pod.as_process import BenchmarkProcess, Place, as_process
from rehearsal.pod.manifest import entry_point, read_pod
from rehearsal.process.processes import running

POD: Final = "qwen-llmperf"
STAGES: Final = 7
"""Besides the stages of the endpoints."""
BENCHMARK_SECONDS: Final = 450.0
"""For each variant."""


def stacks(experiment: Experiment) -> list[str]:
    """The stacks that are deployed: bucket and roles, dashboards and topic."""
    return [f"{experiment.name}-{stack}" for stack in ("model-store", "observability")]


def rehearse(file: str, layout: Layout, endpoints: Endpoints, console: Console) -> Outcome:
    """Runs the experiment of ``file``.

    Raises ExperimentError, RehearsalError or ProcessError.
    """
    experiment = load(file)
    run_id = f"rehearsal-{datetime.now(UTC):%Y%m%d-%H%M%S}"
    cdk = Cdk(layout.root, layout.root / "cdk.out", layout.logs)
    with contextlib.ExitStack() as stack:
        with console.stage("start the embedded AWS") as stage:
            aws = stack.enter_context(embedded_aws(experiment.aws.region, layout.logs / "aws.log"))
            stage.found = f"account {aws.account}, {aws.region}"
        with console.stage(f"synthesise {file}"):
            cdk.synthesise(file, aws.environment)
        with console.stage("bootstrap and deploy") as stage:
            cdk.bootstrap(aws)
            cdk.deploy(aws, stacks(experiment))
            left_out = cdk.left_out(aws, stacks(experiment))
            stage.found = ", ".join(stacks(experiment))
        serving = stack.enter_context(
            endpoints.serving(experiment, layout, aws.environment, console)
        )
        benchmark = as_process(
            read_pod(layout.manifests, POD),
            entry_point(layout.root / "benchmark" / "Dockerfile"),
            Place(
                run_id,
                aws.account,
                serving.urls,
                layout.mounts,
                aws.environment,
                endpoints.caps,
                endpoints.name,
            ),
        )
        with console.stage("run the benchmark", shows_itself=True):
            _run(benchmark, layout, BENCHMARK_SECONDS * len(serving.urls))
        run_dir = layout.mounts["/results"] / run_id
        with console.stage("compare the bucket with the results") as stage:
            stage.found = checks.bucket_holds(aws, benchmark.bucket, run_dir)
        with console.stage("compare the dashboards with the metrics") as stage:
            stage.found = checks.dashboards_show(
                aws, f"{experiment.name}-observability", without=benchmark.left_out
            )
        with console.stage("compare the dashboards' costs with the report's") as stage:
            stage.found = checks.costs_agree(aws, f"{experiment.name}-observability", run_dir)
    return Outcome(run_dir, benchmark.differences, serving.said, left_out)


def _run(benchmark: BenchmarkProcess, layout: Layout, seconds: float) -> None:
    for folder in layout.mounts.values():
        folder.mkdir(parents=True, exist_ok=True)
    for path, content in benchmark.files.items():
        path.write_bytes(content)
    with running(
        benchmark.command,
        benchmark.environment,
        layout.logs / "benchmark.log",
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
