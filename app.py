#!/usr/bin/env python3
"""Composition root: one experiment in; a cloud assembly and Kubernetes manifests out."""

import os
import re
import sys
from pathlib import Path

import aws_cdk as cdk
import cdk8s

from charts.benchmark import prompt_assets
from charts.manifests import charts
from charts.names import Deployed
from experiment import ACCOUNT_PLACEHOLDER, DEFAULT_FILE, Experiment, ExperimentError, load
from stacks.cluster import ClusterStack
from stacks.delivery import DeliveryStack
from stacks.limits import exceeded
from stacks.model_store import ModelStoreStack
from stacks.network import NetworkStack
from stacks.observability import BudgetStack, ObservabilityStack
from stacks.serving import ServingStack
from stacks.trainium import TrainiumStack

ROOT = Path(__file__).parent
_FLAG = "@aws-cdk/aws-ec2:restrictDefaultSecurityGroup"
"""A flag of ``cdk.json``, which the CLI reads in the folder that it is started in."""


def compose(app: cdk.App, experiment: Experiment, account: str | None = None) -> ServingStack:
    """Add every stack of ``experiment`` to ``app``; returns the one that knows the manifests.

    Without an ``account`` the stacks fit any account. With one, the names of resources are literal,
    as CloudFormation needs them to import what an earlier deploy left behind.
    """
    for key, content in prompt_assets(experiment).items():
        Path(app.outdir, key).write_bytes(content)
    _prepare(app, experiment)
    vpc = None if experiment.aws.vpc else NetworkStack(app, experiment, account).vpc
    cluster = ClusterStack(app, experiment, account, vpc).cluster
    store = ModelStoreStack(app, experiment, account)
    trainium = TrainiumStack(app, experiment, account, cluster)
    spectap = ROOT / "packages" / "spectap"
    serving = ServingStack(app, experiment, account, cluster, str(spectap))
    # A destroy goes in reverse: workloads, then the driver and its nodes, then the cluster.
    serving.add_stack_dependency(trainium)
    # Its pods know bucket and key by name.
    serving.add_stack_dependency(store)
    observability = ObservabilityStack(app, experiment, account)
    # The budget publishes to the alarms' topic, to which it refers by name.
    BudgetStack(app, experiment, account).add_stack_dependency(observability)
    return serving


def compose_delivery(app: cdk.App, experiment: Experiment, account: str | None = None) -> None:
    """Add the stack with the roles of workflows. It is alone: it stays when the others go."""
    _prepare(app, experiment)
    DeliveryStack(app, experiment, account)


def _prepare(app: cdk.App, experiment: Experiment) -> None:
    # Traces contain temporary directories of the jsii runtime, so that no two assemblies would be
    # equal.
    app.node.set_context("aws:cdk:disable-creation-stack-traces", True)
    for key, value in experiment.tags.items():
        cdk.Tags.of(app).add(key, value)


def write_manifests(experiment: Experiment, deployed: Deployed, directory: Path) -> None:
    """Writes the same manifests as files, for reading or ``kubectl apply``.

    Those of an earlier synthesis go: ``directory`` is in the CDK's output, and cdk8s names them.
    """
    for stale in directory.glob("[0-9][0-9][0-9][0-9]-*.k8s.yaml"):
        stale.unlink()
    app = cdk8s.App(outdir=str(directory))
    charts(app, experiment, deployed)
    app.synth()


def main() -> int:
    """Synthesise the experiment named by ``-c experiment=FILE``; returns the exit status.

    ``-c account=`` takes 12 digits, or ``none`` for any account. Its default is the credentials',
    which the CLI tells every app.
    """
    app = cdk.App()
    if app.node.try_get_context(_FLAG) is None:
        print(f"cdk.json was not read: run cdk in {ROOT}, where it is", file=sys.stderr)
        return 1
    given = app.node.try_get_context("account") or os.environ.get("CDK_DEFAULT_ACCOUNT") or "none"
    account = None if given == "none" else str(given)
    file = app.node.try_get_context("experiment")
    try:
        if account and not re.fullmatch(r"\d{12}", account):
            raise ExperimentError(f"account = {account!r}: must be 12 digits, or none")
        # The CLI does not say whether it goes on to deploy or destroy.
        if account and not file:
            raise ExperimentError(
                f"experiment is not given, and account {account} could be changed: "
                f"say -c experiment=FILE, such as {DEFAULT_FILE}, or -c account=none"
            )
        experiment = load(DEFAULT_FILE if file is None else file)
    except ExperimentError as error:
        print(error, file=sys.stderr)
        return 1
    if app.node.try_get_context("delivery"):
        compose_delivery(app, experiment, account)
    else:
        serving = compose(app, experiment, account)
        deployed = serving.deployed(account or ACCOUNT_PLACEHOLDER)
        write_manifests(experiment, deployed, Path(app.outdir) / "dist")
    assembly = app.synth()
    refused = [
        line
        for stack in assembly.stacks
        for line in exceeded(stack.stack_name, Path(stack.template_full_path).read_bytes())
    ]
    if refused:
        print("\n".join(refused), file=sys.stderr)
    return 1 if refused else 0


if __name__ == "__main__":
    sys.exit(main())
