"""The whole experiment on this machine, stage by stage."""

import contextlib
import fcntl
import secrets
import shutil
import signal
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from charts.names import benchmark_pod, bucket_name
from experiment import ACCOUNT_PLACEHOLDER, Experiment, load
from experiment.runtimes import Workload
from operations.console import Console
from rehearsal import RehearsalError
from rehearsal.as_process import as_process
from rehearsal.aws import Aws, embedded_aws
from rehearsal.indexes import isolated
from rehearsal.manifest import read_config, read_pod
from rehearsal.processes import await_health, run, running
from rehearsal.setting import BENCHMARK_SECONDS, Endpoints, Layout, Outcome, Setting

STAGES: Final = 5
"""Besides the stages of the endpoints."""
SYNTH_SECONDS: Final = 300.0


def rehearse(file: str, layout: Layout, endpoints: Endpoints, console: Console) -> Outcome:
    """Runs the experiment of ``file``. Raises ExperimentError, RehearsalError or ProcessError."""
    experiment = load(file)
    if experiment.workload is Workload.JOB and not endpoints.plays_jobs:
        mode = experiment.speculations[0].mode
        raise RehearsalError(
            f"mode {mode} runs as a job, which no vLLM can play: use make rehearse"
        )
    with contextlib.ExitStack() as stack:
        stack.enter_context(_alone(layout))
        run_id = f"rehearsal-{datetime.now(UTC):%Y%m%d-%H%M%S}"
        with console.stage("start the embedded AWS") as stage:
            aws = stack.enter_context(embedded_aws(experiment.aws.region, layout.logs / "aws.log"))
            stage.result = f"account {aws.account}, {aws.region}"
        with console.stage(f"synthesise {file}"):
            _synthesise(file, layout, aws.environment)
        with console.stage("create the bucket") as stage:
            stage.result = create(aws, experiment, layout)
        setting = Setting(experiment, run_id, layout, aws, endpoints, console)
        outcome = isolated(setting) if experiment.isolated else compared(setting)
    outcome.write_stand_ins()
    return outcome


@contextlib.contextmanager
def _alone(layout: Layout) -> Iterator[None]:
    """Refuses a second rehearsal in a checkout: both would write into the same folders."""
    layout.work.mkdir(parents=True, exist_ok=True)
    with (layout.work / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RehearsalError(f"another rehearsal is running in {layout.root}") from None
        yield


def _synthesise(file: str, layout: Layout, environment: Mapping[str, str]) -> None:
    cli = layout.root / "node_modules" / ".bin" / "cdk"
    context = ["--context", f"experiment={file}", "--context", "account=none"]
    arguments = [*context, "--output", str(layout.assembly), "--quiet"]
    options = ["--ci", "--no-notices", "--no-lookups"]
    shutil.rmtree(layout.assembly, ignore_errors=True)  # manifests of another experiment
    # Otherwise the CLI looks up a host of AWS.
    quiet = {"CDK_DISABLE_CLI_TELEMETRY": "true"}
    run(
        [str(cli), "synth", *arguments, *options],
        {**environment, **quiet},
        layout.logs / "cdk-synth.log",
        SYNTH_SECONDS,
    )


def create(aws: Aws, experiment: Experiment, layout: Layout) -> str:
    """Creates what the pods expect: the bucket, what a deploy uploads for them, and the API key."""
    bucket = bucket_name(experiment, aws.account)
    buckets: dict[str, list[str]] = {bucket: []}
    config = read_config(layout.manifests)
    if config.prompts_bucket is not None:
        digests = (case.prompts.digest for case in config.test_cases if case.prompts)
        name = config.prompts_bucket.replace(ACCOUNT_PLACEHOLDER, aws.account)
        buckets[name] = [digest for digest in (config.lines, *digests) if digest]
    # S3 refuses the name of its default region.
    location: dict[str, Any] = {}
    if aws.region != "us-east-1":
        location["CreateBucketConfiguration"] = {"LocationConstraint": aws.region}
    s3 = aws.client("s3")
    for name, keys in buckets.items():
        # The bootstrap's is the account's, and not the experiment's.
        with contextlib.suppress(s3.exceptions.BucketAlreadyOwnedByYou):
            s3.create_bucket(Bucket=name, **location)
        for key in keys:
            s3.put_object(Bucket=name, Key=key, Body=(layout.assembly / key).read_bytes())
    if secret := experiment.api_key_secret:
        aws.client("secretsmanager").create_secret(Name=secret, SecretString=secrets.token_hex())
    return bucket


def compared(setting: Setting) -> Outcome:
    """Measures services side by side, by one benchmark. Raises RehearsalError or ProcessError."""
    console, layout = setting.console, setting.layout
    servers = setting.endpoints.servers(setting, None)
    with contextlib.ExitStack() as stack:
        with console.stage(f"start {len(servers.urls)} servers") as stage:
            logs = {name: layout.logs / f"endpoint-{name}.log" for name in servers.urls}
            processes = {
                name: stack.enter_context(running(server.command, server.environment, logs[name]))
                for name, server in servers.by_variant.items()
            }
            for name, process in processes.items():
                await_health(name, process, servers.urls[name], logs[name])
            stage.result = ", ".join(f"{name} {url}" for name, url in servers.urls.items())
        pod = read_pod(layout.manifests, "Pod", benchmark_pod(setting.experiment))
        again = f"kill -HUP {' '.join(str(process.pid) for process in processes.values())}; sleep 2"
        variables = {"RELAUNCH": again} if "RELAUNCH" in pod.environment else {}
        benchmark = as_process(pod, setting, servers, variables=variables)
        with console.stage("run the benchmark", shows_itself=True):
            benchmark.write()
            run(
                benchmark.command,
                benchmark.environment,
                layout.logs / "benchmark.log",
                BENCHMARK_SECONDS * len(servers.urls),
                errors_on_terminal=True,
                end_by=signal.SIGTERM,
            )
    return Outcome(setting.run_dir, benchmark.differences, servers.description)
