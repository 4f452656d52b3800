"""The Job of variants that no server serves: one index each, one after the other."""

from __future__ import annotations

from collections.abc import Mapping
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
    run_id,
    run_variable,
)
from charts.llmperf import CONFIG_PATH, RESULTS_PATH, benchmark_container, benchmark_volumes
from charts.names import DEVICES, NAMESPACE, Component, ServiceAccount, indexed_job
from charts.pods import SCRIPTS_PATH, mount
from charts.scripts import Scripts
from charts.server import ARTIFACT_PATH, on_devices, paths, serving_pod
from experiment.estimate import index_deadline_seconds, job_deadline_seconds
from experiment.runtimes import Paths, medusa_tree
from experiment.schema import Experiment
from experiment.variants import Variant

_OWN: Final = "benchmark-"
"""Prefix of volumes that are the benchmark's own, where ``generate`` has one of that name, too."""


class OfflineChart(Chart):
    """An Indexed Job of which one index runs at a time, on a claim of its own."""

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
    """The Job of an experiment whose variants run as jobs."""
    return Indexes(
        name=indexed_job(experiment),
        component=Component.OFFLINE,
        file="generate",
        command=generate_command,
        environment=generate_environment,
        scripts=(*COMMON_SCRIPTS, "generate.sh", "benchmark_medusa.py", *medusa_tree.files()),
        # The tree decides what a step yields.
        instruments=("generate.sh", "benchmark_medusa.py", *medusa_tree.files()),
        # Beside nothing else, so that no variant is slowed by another.
        parallelism=1,
        deadline_seconds=job_deadline_seconds(experiment),
        never=(DEVICES, "fetch", "generate"),
    )


def generate_command(variant: Variant) -> list[str]:
    """What generates with ``variant``."""
    return variant.runtime.generate_command(variant, _paths(variant))


def generate_environment(variant: Variant) -> Mapping[str, str]:
    """The environment of ``generate_command``."""
    environment = variant.runtime.generate_environment(variant, _paths(variant))
    return {**environment, "HF_HUB_OFFLINE": "1"}


def _paths(variant: Variant) -> Paths:
    return paths(variant, artifact=ARTIFACT_PATH, scratch="/tmp")


def _pod(experiment: Experiment, image: str) -> k8s.PodSpec:
    """Brings the artifact, runs ``inference_demo``, collects: one container after another."""
    return serving_pod(
        experiment,
        ServiceAccount.OFFLINE,
        # An index that failed is a new pod, which the Job counts.
        restart_policy="Never",
        # A generation that hangs would keep the devices until the Job's own deadline.
        active_deadline_seconds=index_deadline_seconds(experiment),
        # As in a sweep: a compile takes all cores of its node.
        affinity=not_beside(COMPILES),
        init_containers=[fetch_index(experiment), _generate(experiment)],
        containers=[
            benchmark_container(
                image, "collect", "collect", variables=[run_variable(experiment)], own=_OWN
            )
        ],
        volumes=benchmark_volumes(indexed_job(experiment), own=_OWN),
    )


def _generate(experiment: Experiment) -> k8s.Container:
    """The runtime's own program, with the devices."""
    return on_devices(
        experiment,
        "generate",
        ["/bin/bash", f"{SCRIPTS_PATH}/generate.sh", CONFIG_PATH, ARTIFACT_PATH, RESULTS_PATH],
        {**indexes(experiment).shared_environment(experiment), "RUN_ID": run_id(experiment)},
        # It writes its tokenizer there (NxDI v0.6.10598, inference_demo.py, load_tokenizer).
        artifact=mount("artifact", ARTIFACT_PATH),
        mounts=[
            config_mount(),
            mount("scripts", SCRIPTS_PATH, read_only=True),
            mount("results", RESULTS_PATH),
        ],
    )
