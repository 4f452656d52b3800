"""The whole experiment on this machine, step by step."""

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
from rehearsal.console import Steps
from rehearsal.endpoints import Endpoints
from rehearsal.errors import RehearsalError
from rehearsal.layout import Layout
from rehearsal.outcome import Outcome
from rehearsal.pod.as_process import Benchmark, Place, adapt
from rehearsal.pod.manifest import entry_point, read_pod
from rehearsal.process.processes import running

POD: Final = "qwen-llmperf"
STEPS: Final = 6
"""Besides those of the endpoints."""
BENCHMARK_SECONDS: Final = 900.0


def stacks(experiment: Experiment) -> list[str]:
    """What is deployed of an experiment: its bucket and roles, its dashboards and topic."""
    return [f"{experiment.name}-{stack}" for stack in ("model-store", "observability")]


def rehearse(file: str, layout: Layout, endpoints: Endpoints, steps: Steps) -> Outcome:
    """Runs the experiment of ``file``. Raises RehearsalError, or ExperimentError."""
    experiment = load(file)
    run_id = f"rehearsal-{datetime.now(UTC):%Y%m%d-%H%M%S}"
    cdk = Cdk(layout.root, layout.root / "cdk.out", layout.logs)
    with contextlib.ExitStack() as stack:
        with steps.step("start the embedded AWS") as step:
            aws = stack.enter_context(embedded_aws(experiment.aws.region, layout.logs / "aws.log"))
            step.found = f"account {aws.account}, {aws.region}"
        with steps.step(f"synthesise {file}"):
            cdk.synthesise(file, aws.environment)
        with steps.step("bootstrap and deploy") as step:
            cdk.bootstrap(aws)
            cdk.deploy(aws, stacks(experiment))
            left_out = cdk.left_out(aws, stacks(experiment))
            step.found = ", ".join(stacks(experiment))
        serving = stack.enter_context(endpoints.serving(experiment, layout, aws.environment, steps))
        benchmark = adapt(
            read_pod(layout.manifests, POD),
            entry_point(layout.root / "benchmark" / "Dockerfile"),
            Place(
                run_id,
                aws.account,
                serving.urls,
                layout.mounts,
                aws.environment,
                endpoints.load,
                endpoints.name,
            ),
        )
        start = datetime.now(UTC)
        with steps.step("run the benchmark", shows_itself=True):
            _run(benchmark, layout)
        run_dir = layout.mounts["/results"] / run_id
        with steps.step("compare the bucket with the results") as step:
            step.found = checks.bucket_holds(aws, benchmark.bucket, run_dir)
        with steps.step("read the dashboards back") as step:
            step.found = checks.dashboards_show(
                aws, experiment.name, start, layout.logs / "dashboards.txt"
            )
    return Outcome(run_dir, benchmark.differences, serving.said, left_out)


def _run(benchmark: Benchmark, layout: Layout) -> None:
    for folder in layout.mounts.values():
        folder.mkdir(parents=True, exist_ok=True)
    for path, text in benchmark.files.items():
        path.write_text(text, encoding="utf-8")
    with running(
        benchmark.command,
        benchmark.environment,
        layout.logs / "benchmark.log",
        errors_on_terminal=True,
    ) as process:
        try:
            status = process.wait(BENCHMARK_SECONDS)
        except subprocess.TimeoutExpired:
            raise RehearsalError(f"did not end within {BENCHMARK_SECONDS:.0f} s") from None
    if status < 0:
        raise RehearsalError(f"the benchmark was killed ({signal.Signals(-status).name})")
    if status != 0:
        raise RehearsalError(f"the benchmark ended with status {status}, for the reason above")
