"""The Job of a sweep: one index a variant, each served and measured by itself."""

from __future__ import annotations

from typing import Final

from cdk8s import Chart
from cdk8s_plus_35 import k8s
from constructs import Construct

from charts.compilation import COMPILES, not_beside
from charts.deployed import Deployed
from charts.indexes import (
    COMMON_SCRIPTS,
    Indexes,
    config_mount,
    fetch_index,
    patience,
    run_variable,
)
from charts.llmperf import BENCHMARK_ROOM, CONFIG_PATH, benchmark_container, benchmark_volumes
from charts.names import DEVICES, NAMESPACE, Component, ServiceAccount, indexed_job
from charts.pods import SCRIPTS_PATH, mount
from charts.scripts import Scripts
from charts.server import (
    ARTIFACT_PATH,
    key_scripts,
    serve_command,
    serve_environment,
    server,
    serving_pod,
)
from experiment.estimate import job_deadline_seconds
from experiment.schema import Experiment
from experiment.variants import variants

_OWN: Final = "benchmark-"
"""Prefix of volumes that are the benchmark's own, where vLLM has one of that name, too."""


class SweepChart(Chart):
    """An Indexed Job. As many indexes run at once as the nodes have devices for.

    The pods of all indexes are made at the start; those without devices wait.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        experiment: Experiment,
        deployed: Deployed,
        scripts: Scripts,
    ) -> None:
        super().__init__(scope, construct_id, namespace=NAMESPACE)
        indexes(experiment).add_to(
            self,
            experiment,
            deployed,
            scripts=scripts,
            pod=lambda image: _pod(experiment, image),
        )


def indexes(experiment: Experiment) -> Indexes:
    """The Job of a sweep."""
    return Indexes(
        name=indexed_job(experiment),
        component=Component.SWEEP,
        file="serve",
        command=serve_command,
        environment=serve_environment,
        scripts=(*COMMON_SCRIPTS, "serve-index.sh", *key_scripts(experiment)),
        parallelism=len(variants(experiment)),
        deadline_seconds=job_deadline_seconds(experiment),
        never=(DEVICES, "fetch", "benchmark"),
    )


def _pod(experiment: Experiment, image: str) -> k8s.PodSpec:
    """Brings the artifact, serves, measures: the pod ends when the benchmark does."""
    return serving_pod(
        experiment,
        ServiceAccount.SWEEP,
        # An index that failed is a new pod, which the Job counts.
        restart_policy="Never",
        # A compile takes all cores of its node: what is measured beside it would be slower, and
        # the controls need not show it. The scheduler keeps compiles away from these pods, too.
        affinity=not_beside(COMPILES),
        init_containers=[fetch_index(experiment), _vllm(experiment)],
        containers=[
            benchmark_container(
                image,
                "benchmark",
                "index",
                variables=[run_variable(experiment), patience()],
                own=_OWN,
            )
        ],
        volumes=benchmark_volumes(indexed_job(experiment), own=_OWN),
    )


def _vllm(experiment: Experiment) -> k8s.Container:
    """A sidecar, which Kubernetes ends after the benchmark and starts again if it fails.

    Without probes: the benchmark waits for it and says why it does not start. A startup probe that
    failed would begin anew, for ever, and the benchmark would never run.
    """
    return server(
        experiment,
        ["/bin/bash", f"{SCRIPTS_PATH}/serve-index.sh", CONFIG_PATH, ARTIFACT_PATH],
        indexes(experiment).shared_environment(experiment),
        beside=BENCHMARK_ROOM,
        mounts=[config_mount(), mount("scripts", SCRIPTS_PATH, read_only=True)],
        restart_policy="Always",
    )
