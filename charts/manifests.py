"""Every manifest of an experiment, as cdk8s charts."""

from itertools import pairwise

from cdk8s import App, Chart

from charts import scripts
from charts.benchmark import add_llmperf
from charts.names import Deployed, namespace
from charts.namespace import add_device_claims, add_model_store, add_namespace
from charts.preparation import add_preparation
from charts.sweep_job import add_indexes
from charts.vllm import add_vllm
from experiment.schema import Experiment
from experiment.variants import variants


def charts(app: App, experiment: Experiment, deployed: Deployed) -> list[Chart]:
    """All charts of ``experiment``, in the order they must be applied in."""
    read, ordered = scripts.read(), list[Chart]()

    def chart(name: str) -> Chart:
        ordered.append(Chart(app, name, namespace=namespace(experiment)))
        return ordered[-1]

    add_namespace(chart("namespace"), experiment)
    add_device_claims(chart("claims"), experiment)
    add_model_store(chart("model-store"), experiment, deployed.bucket)
    add_preparation(chart("preparation"), experiment, read)
    if experiment.isolated:
        add_indexes(chart("sweep" if experiment.sweep else "offline"), experiment, deployed, read)
    else:
        for variant in variants(experiment):
            add_vllm(chart(variant.service), variant)
        add_llmperf(chart("llmperf"), experiment, deployed)
    for earlier, later in pairwise(ordered):
        later.add_dependency(earlier)
    return ordered
