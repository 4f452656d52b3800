"""Every manifest of an experiment, as cdk8s charts."""

from __future__ import annotations

from itertools import pairwise

from cdk8s import App, Chart

from charts import scripts
from charts.indexes import IndexesChart
from charts.llmperf import LlmperfChart
from charts.names import Deployed
from charts.namespace import ClaimsChart, ModelStoreChart, NamespaceChart
from charts.preparation import PreparationChart
from charts.quality import QualityChart
from charts.vllm import VllmChart
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
    ]
    if experiment.isolated:
        name = "sweep" if experiment.sweep else "offline"
        measures = IndexesChart(app, name, experiment=experiment, deployed=deployed, scripts=read)
        ordered.append(measures)
    else:
        ordered += [VllmChart(app, v.service, variant=v) for v in variants(experiment)]
        ordered.append(LlmperfChart(app, "llmperf", experiment=experiment, deployed=deployed))
        ordered.append(QualityChart(app, "quality", experiment=experiment, scripts=read))
    for earlier, later in pairwise(ordered):
        later.add_dependency(earlier)
    return ordered
