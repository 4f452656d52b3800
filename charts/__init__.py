"""Kubernetes: every manifest of an experiment, as cdk8s charts."""

from __future__ import annotations

from collections.abc import Callable
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
    namespace = NamespaceChart(app, "namespace")
    ordered: list[Chart] = [
        namespace,
        ClaimsChart(app, "claims", experiment=experiment),
        ModelStoreChart(app, "model-store", experiment=experiment, bucket=deployed.bucket),
        PreparationChart(app, "preparation", experiment=experiment, scripts=scripts.read()),
        *(
            WORKLOADS[variant.workload](app, variant.service, variant=variant)
            for variant in variants(experiment)
        ),
        LlmperfChart(
            app,
            "llmperf",
            experiment=experiment,
            bucket=deployed.bucket,
            image=deployed.benchmark_image,
        ),
        QualityChart(app, "quality", experiment=experiment, scripts=scripts.read()),
    ]
    for earlier, later in pairwise(ordered):
        later.add_dependency(earlier)
    return ordered
