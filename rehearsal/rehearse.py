"""The whole experiment on this machine, stage by stage."""

from __future__ import annotations

import contextlib
from datetime import UTC, datetime
from typing import Final

from deployment.console import Console
from experiment import Experiment, load
from experiment.runtimes import Workload
from experiment.variants import variants
from rehearsal.aws import checks
from rehearsal.aws.cdk import Cdk
from rehearsal.aws.client import embedded_aws
from rehearsal.comparison import comparison
from rehearsal.endpoints import Endpoints
from rehearsal.errors import RehearsalError
from rehearsal.layout import Layout
from rehearsal.offline.offline import offline
from rehearsal.outcome import Measured, Outcome
from rehearsal.setting import Setting
from rehearsal.sweep.faults import NO_FAULTS, Faults
from rehearsal.sweep.sweep import sweep

STAGES: Final = 7
"""Besides the stages of the endpoints."""


def _measured(setting: Setting, faults: Faults) -> Measured:
    """Measures as the experiment's variants live. Raises RehearsalError or ProcessError."""
    if setting.experiment.workload is Workload.JOB:
        return offline(setting, faults)
    return sweep(setting, faults) if setting.experiment.sweep else comparison(setting)


def stacks(experiment: Experiment) -> list[str]:
    """The stacks that are deployed: bucket and roles, dashboards and topic."""
    return [f"{experiment.name}-{stack}" for stack in ("model-store", "observability")]


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
        setting = Setting(experiment, run_id, layout, aws, endpoints, console)
        measured = _measured(setting, faults)
        if experiment.workload is not Workload.JOB:  # jobs publish no metric
            with console.stage("compare the dashboards with the metrics") as stage:
                stage.found = checks.dashboards_show(
                    aws,
                    f"{experiment.name}-observability",
                    without=measured.absent,
                    beside=measured.own,
                )
            with console.stage("compare the dashboards' costs with the report's") as stage:
                stage.found = checks.costs_agree(
                    aws,
                    f"{experiment.name}-observability",
                    measured.run_dir,
                    beside=measured.own,
                )
    outcome = Outcome(measured, left_out)
    outcome.write_stand_ins()
    return outcome
