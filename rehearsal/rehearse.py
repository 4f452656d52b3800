"""The whole experiment on this machine, stage by stage."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from charts.names import bucket_name
from deployment.console import Console
from experiment import Experiment, load
from experiment.runtimes import Workload
from experiment.variants import variants
from rehearsal.aws import checks, dashboards
from rehearsal.aws.client import Aws, embedded_aws
from rehearsal.comparison import comparison
from rehearsal.endpoints import Endpoints
from rehearsal.errors import RehearsalError
from rehearsal.layout import Layout
from rehearsal.offline.offline import offline
from rehearsal.outcome import Measured, Outcome
from rehearsal.process.processes import run
from rehearsal.setting import Setting
from rehearsal.sweep.faults import NO_FAULTS, Faults
from rehearsal.sweep.sweep import sweep

STAGES: Final = 7
"""Besides the stages of the endpoints."""
SYNTH_SECONDS: Final = 300.0


def _measured(setting: Setting, faults: Faults) -> Measured:
    """Measures as the experiment's variants live. Raises RehearsalError or ProcessError."""
    if setting.experiment.workload is Workload.JOB:
        return offline(setting, faults)
    return sweep(setting, faults) if setting.experiment.sweep else comparison(setting)


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


def _create(aws: Aws, experiment: Experiment) -> str:
    """Creates what the pods expect: the bucket and, where servers ask for one, the API key."""
    bucket = bucket_name(experiment, aws.account)
    # S3 refuses the name of its default region.
    given: dict[str, Any] = {"Bucket": bucket}
    if aws.region != "us-east-1":
        given["CreateBucketConfiguration"] = {"LocationConstraint": aws.region}
    aws.client("s3").create_bucket(**given)
    if name := experiment.api_key_secret:
        aws.client("secretsmanager").create_secret(Name=name, SecretString=secrets.token_hex())
    return bucket


def rehearse(
    file: str,
    layout: Layout,
    endpoints: Endpoints,
    console: Console,
    faults: Faults = NO_FAULTS,
) -> Outcome:
    """Runs the experiment of ``file``. ``faults`` are for variants that are measured apart.

    Raises ExperimentError, RehearsalError or ProcessError.
    """
    experiment = load(file)
    faults.check(len(variants(experiment)) if experiment.apart else 0)
    if experiment.workload is Workload.JOB and not endpoints.plays_jobs:
        mode = experiment.speculations[0].mode
        raise RehearsalError(
            f"mode {mode} runs as a job, which no vLLM can play: rehearse {file} without --vllm"
        )
    run_id = f"rehearsal-{datetime.now(UTC):%Y%m%d-%H%M%S}"
    with contextlib.ExitStack() as stack:
        with console.stage("start the embedded AWS") as stage:
            aws = stack.enter_context(embedded_aws(experiment.aws.region, layout.logs / "aws.log"))
            stage.found = f"account {aws.account}, {aws.region}"
        with console.stage(f"synthesise {file}"):
            _synthesise(file, layout, aws.environment)
        with console.stage("create the bucket") as stage:
            stage.found = _create(aws, experiment)
        setting = Setting(experiment, run_id, layout, aws, endpoints, console)
        measured = _measured(setting, faults)
        if experiment.workload is not Workload.JOB:  # jobs publish no metric
            template = layout.assembly / f"{experiment.name}-observability.template.json"
            curves = dashboards.curves(template, aws.region)
            with console.stage("compare the dashboards with the metrics") as stage:
                stage.found = checks.dashboards_show(
                    aws, curves, without=measured.absent, beside=measured.own
                )
            with console.stage("compare the dashboards' costs with the report's") as stage:
                stage.found = checks.costs_agree(aws, curves, measured.run_dir, beside=measured.own)
    outcome = Outcome(measured)
    outcome.write_stand_ins()
    return outcome
