"""The whole experiment on this machine, stage by stage."""

from __future__ import annotations

import contextlib
import secrets
import signal
import subprocess
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from charts.names import benchmark_pod, bucket_name
from deployment.console import Console
from experiment import Experiment, load
from experiment.runtimes import Workload
from experiment.variants import variants
from rehearsal import RehearsalError
from rehearsal.aws import checks, dashboards
from rehearsal.aws.client import Aws, embedded_aws
from rehearsal.indexes import NO_FAULTS, Faults, isolated
from rehearsal.outcome import Outcome
from rehearsal.pod.as_process import BenchmarkProcess, as_process
from rehearsal.pod.manifest import read_pod
from rehearsal.processes import await_health, run, running
from rehearsal.setting import BENCHMARK_SECONDS, Endpoints, Layout, Servers, Setting
from spectap.names import LOAD_DIMENSION, VARIANT_DIMENSION

STAGES: Final = 8
"""Besides the stages of the endpoints."""
SYNTH_SECONDS: Final = 300.0


def rehearse(
    file: str,
    layout: Layout,
    endpoints: Endpoints,
    console: Console,
    faults: Faults = NO_FAULTS,
) -> Outcome:
    """Runs the experiment of ``file``. ``faults`` are for isolated variants.

    Raises ExperimentError, RehearsalError or ProcessError.
    """
    experiment = load(file)
    faults.check(len(variants(experiment)) if experiment.isolated else 0)
    are_jobs = experiment.workload is Workload.JOB
    if are_jobs and not endpoints.plays_jobs:
        mode = experiment.speculations[0].mode
        raise RehearsalError(
            f"mode {mode} runs as a job, which no vLLM can play: rehearse {file} without --vllm"
        )
    run_id = f"rehearsal-{datetime.now(UTC):%Y%m%d-%H%M%S}"
    with contextlib.ExitStack() as stack:
        with console.stage("start the embedded AWS") as stage:
            aws = stack.enter_context(embedded_aws(experiment.aws.region, layout.logs / "aws.log"))
            stage.result = f"account {aws.account}, {aws.region}"
        with console.stage(f"synthesise {file}"):
            _synthesise(file, layout, aws.environment)
        with console.stage("create the bucket") as stage:
            stage.result = create(aws, experiment)
        setting = Setting(experiment, run_id, layout, aws, endpoints, console)
        outcome = isolated(setting, faults) if experiment.isolated else compared(setting)
        if not are_jobs:  # jobs publish no metric
            template = layout.assembly / f"{experiment.name}-observability.template.json"
            curves = dashboards.curves(template, aws.region)
            with console.stage("compare the dashboards with the metrics") as stage:
                stage.result = checks.dashboards_show(
                    aws, curves, without=outcome.absent, added=outcome.added
                )
            with console.stage("compare the dashboards' costs with the report's") as stage:
                stage.result = checks.costs_agree(aws, curves, outcome.run_dir, added=outcome.added)
    outcome.write_stand_ins()
    return outcome


def _synthesise(file: str, layout: Layout, environment: Mapping[str, str]) -> None:
    """Writes the assembly and ``dist/``, as the Makefile does. Raises ProcessError."""
    cli = layout.root / "node_modules" / ".bin" / "cdk"
    arguments = ["--context", f"experiment={file}", "--output", str(layout.assembly), "--quiet"]
    options = ["--ci", "--no-notices", "--no-lookups"]
    # Otherwise the CLI looks up a host of AWS.
    quiet = {"CDK_DISABLE_CLI_TELEMETRY": "true"}
    run(
        [str(cli), "synth", *arguments, *options],
        {**environment, **quiet},
        layout.logs / "cdk-synth.log",
        SYNTH_SECONDS,
    )


def create(aws: Aws, experiment: Experiment) -> str:
    """Creates what the pods expect: the bucket and, where servers ask for one, the API key."""
    bucket = bucket_name(experiment, aws.account)
    # S3 refuses the name of its default region.
    location: dict[str, Any] = {}
    if aws.region != "us-east-1":
        location["CreateBucketConfiguration"] = {"LocationConstraint": aws.region}
    aws.client("s3").create_bucket(Bucket=bucket, **location)
    if name := experiment.api_key_secret:
        aws.client("secretsmanager").create_secret(Name=name, SecretString=secrets.token_hex())
    return bucket


def compared(setting: Setting) -> Outcome:
    """Measures services that run beside each other, which one benchmark asks in turn.

    Raises RehearsalError or ProcessError.
    """
    console, layout = setting.console, setting.layout
    servers = setting.endpoints.servers(setting, None)
    with contextlib.ExitStack() as stack:
        with console.stage(f"start {len(servers.urls)} {setting.endpoints.kind}") as stage:
            stack.enter_context(_serving(setting, servers))
            stage.result = ", ".join(f"{name} {url}" for name, url in servers.urls.items())
        pod = read_pod(layout.manifests, benchmark_pod(setting.experiment))
        benchmark = as_process(pod, setting.entry_point, setting.sandbox(servers))
        with console.stage("run the benchmark", shows_itself=True):
            _run(setting, benchmark, BENCHMARK_SECONDS * len(servers.urls))
    with console.stage("compare the bucket with the results") as stage:
        stage.result = checks.bucket_holds(setting.aws, benchmark.bucket, setting.run_dir)
    return Outcome(
        setting.run_dir,
        benchmark.differences,
        servers.description,
        absent=frozenset((LOAD_DIMENSION, name) for name in benchmark.left_out),
        added=frozenset((VARIANT_DIMENSION, variant.name) for variant in servers.added),
    )


@contextlib.contextmanager
def _serving(setting: Setting, servers: Servers) -> Iterator[None]:
    """All servers at the same time. Raises RehearsalError or ProcessError."""
    logs = {name: setting.layout.logs / f"endpoint-{name}.log" for name in servers.by_variant}
    with contextlib.ExitStack() as stack:
        processes = {
            name: stack.enter_context(running(server.command, server.environment, logs[name]))
            for name, server in servers.by_variant.items()
        }
        for name, process in processes.items():
            await_health(name, process, servers.urls[name].removesuffix("/v1"), logs[name])
        for process in processes.values():
            setting.endpoints.started(process)
        yield


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
