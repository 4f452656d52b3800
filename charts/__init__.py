"""Kubernetes: every manifest of an experiment, as cdk8s charts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from cdk8s import App, Chart

from charts import scripts
from charts.claims import ClaimsChart
from charts.llmperf import LlmperfChart
from charts.model_store import ModelStoreChart
from charts.namespace import NamespaceChart
from charts.preparation import PreparationChart
from charts.quality import QualityChart
from charts.scripts import Scripts
from charts.sweep import SweepChart
from charts.vllm import VllmChart
from experiment.runtimes import Workload
from experiment.schema import Experiment
from experiment.variants import variants

WORKLOADS: Final[dict[Workload, Callable[..., Chart]]] = {Workload.SERVICE: VllmChart}
"""The chart of each workload. It takes a scope, an id and the variant, as keyword ``variant``."""


@dataclass(frozen=True)
class Deployed:
    """What only a deployment knows, because it depends on the account."""

    bucket: str
    benchmark_image: str


def charts(app: App, experiment: Experiment, deployed: Deployed) -> list[Chart]:
    """All charts of ``experiment``, in the order they must be applied in."""
    read = scripts.read()
    ordered: list[Chart] = [
        NamespaceChart(app, "namespace", experiment=experiment),
        ClaimsChart(app, "claims", experiment=experiment),
        ModelStoreChart(app, "model-store", experiment=experiment, bucket=deployed.bucket),
        PreparationChart(app, "preparation", experiment=experiment, scripts=read),
        *(_sweep if experiment.sweep else _services)(app, experiment, deployed, read),
    ]
    for earlier, later in pairwise(ordered):
        later.add_dependency(earlier)
    return ordered


def _services(
    app: App, experiment: Experiment, deployed: Deployed, read: Scripts
) -> Iterator[Chart]:
    """Variants that stand side by side, and what measures and judges them."""
    for variant in variants(experiment):
        yield WORKLOADS[variant.workload](app, variant.service, variant=variant)
    yield LlmperfChart(
        app,
        "llmperf",
        experiment=experiment,
        bucket=deployed.bucket,
        image=deployed.benchmark_image,
    )
    yield QualityChart(app, "quality", experiment=experiment, scripts=read)


def _sweep(app: App, experiment: Experiment, deployed: Deployed, read: Scripts) -> Iterator[Chart]:
    """Variants that are measured one by one."""
    yield SweepChart(
        app,
        "sweep",
        experiment=experiment,
        bucket=deployed.bucket,
        image=deployed.benchmark_image,
        scripts=read,
    )
