"""Every manifest of an experiment, as cdk8s charts."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from cdk8s import App, Chart

from charts import scripts
from charts.claims import ClaimsChart
from charts.deployed import Deployed
from charts.llmperf import LlmperfChart
from charts.model_store import ModelStoreChart
from charts.namespace import NamespaceChart
from charts.offline import OfflineChart
from charts.preparation import PreparationChart
from charts.quality import QualityChart
from charts.scripts import Scripts
from charts.sweep import SweepChart
from charts.vllm import VllmChart
from experiment.runtimes import Workload
from experiment.schema import Experiment
from experiment.variants import variants


def charts(app: App, experiment: Experiment, deployed: Deployed) -> list[Chart]:
    """All charts of ``experiment``, in the order they must be applied in."""
    read = scripts.read()
    ordered: list[Chart] = [
        NamespaceChart(app, "namespace", experiment=experiment),
        ClaimsChart(app, "claims", experiment=experiment),
        ModelStoreChart(app, "model-store", experiment=experiment, bucket=deployed.bucket),
        PreparationChart(app, "preparation", experiment=experiment, scripts=read),
        *_measured(app, experiment, deployed, read),
    ]
    for earlier, later in pairwise(ordered):
        later.add_dependency(earlier)
    return ordered


def _measured(
    app: App, experiment: Experiment, deployed: Deployed, read: Scripts
) -> Iterator[Chart]:
    """The variants, and what measures them."""
    if experiment.sweep:
        return _sweep(app, experiment, deployed, read)
    if experiment.workload is Workload.JOB:
        return _offline(app, experiment, deployed, read)
    return _services(app, experiment, deployed, read)


def _services(
    app: App, experiment: Experiment, deployed: Deployed, read: Scripts
) -> Iterator[Chart]:
    """Variants that stand side by side, and what measures and judges them."""
    for variant in variants(experiment):
        yield VllmChart(app, variant.service, variant=variant)
    yield LlmperfChart(app, "llmperf", experiment=experiment, deployed=deployed)
    yield QualityChart(app, "quality", experiment=experiment, scripts=read)


def _sweep(app: App, experiment: Experiment, deployed: Deployed, read: Scripts) -> Iterator[Chart]:
    """Variants that are measured one by one."""
    yield SweepChart(app, "sweep", experiment=experiment, deployed=deployed, scripts=read)


def _offline(
    app: App, experiment: Experiment, deployed: Deployed, read: Scripts
) -> Iterator[Chart]:
    """Variants that run as jobs, one after the other."""
    yield OfflineChart(app, "offline", experiment=experiment, deployed=deployed, scripts=read)
