"""The ``qwen-sweep`` Job: one index a variant, each served and measured by itself."""

from __future__ import annotations

from typing import Final

from cdk8s import Chart
from cdk8s_plus_35 import k8s
from constructs import Construct

from benchmark import config
from charts.compilation import COMPILES, not_beside
from charts.llmperf import (
    BENCHMARK_ROOM,
    CONFIG_PATH,
    benchmark_config,
    benchmark_container,
    benchmark_volumes,
    prompt_files,
)
from charts.names import (
    NAMESPACE,
    SWEEP_JOB,
    Component,
    ServiceAccount,
    artifact_prefix,
)
from charts.pods import SCRIPTS_PATH, digest, job_name, mount
from charts.scripts import Scripts
from charts.server import (
    ARTIFACT_PATH,
    fetch,
    serve_command,
    serve_environment,
    server,
    serving_pod,
)
from experiment.estimate import deadline_seconds
from experiment.schema import Experiment
from experiment.variants import Variant, variants

NOT_YET: Final = 75
"""What ``fetch`` ends with where there is no artifact yet: EX_TEMPFAIL of ``sysexits.h``."""

NEVER: Final = 69
"""What ``fetch`` ends with where it has looked in vain too often, and the benchmark where no vLLM
came to serve: EX_UNAVAILABLE. Another try would hold the devices as long and find the same."""

LOOKS: Final = 24
"""How often an index looks for its graph before it fails. It looks only while its node compiles
nothing, and the Job waits between two looks, 10 s and twice as long each time up to 10 min: three
hours for all of them."""

START_SECONDS: Final = 45 * 60
"""The benchmark's patience with vLLM: as long as a service may take to start."""

_RETRIES: Final = 2
_IGNORED: Final = "batch.kubernetes.io/job-index-ignored-failure-count"
_SCRIPTS: Final = ("complete.sh", "fetch-index.sh", "fetch-artifact.sh", "serve-index.sh")
_ASKED: Final = {"model", "load", "test_cases", "keep_answers"}
"""Fields of the configuration that decide what is measured of any variant."""
_SHORT: Final = 12
"""Of a digest, which is the tag of an image that is built here, so many digits are shown."""
_OWN: Final = "benchmark-"
"""Prefix of volumes that are the benchmark's own, where vLLM has one of that name, too."""


class SweepChart(Chart):
    """An Indexed Job. As many indexes run at once as the nodes have devices for.

    The pods of all indexes are made at the start; those without devices wait. What an index is, it
    reads from the ConfigMap, because the pods of a Job have one specification.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        experiment: Experiment,
        bucket: str,
        image: str,
        scripts: Scripts,
    ) -> None:
        super().__init__(scope, construct_id, namespace=NAMESPACE)
        # The account stands in the repository of an image that is built here, and must not change
        # the Job's name.
        stable = experiment.benchmark.image or image.rpartition(":")[2]
        self._experiment = experiment
        self._scripts = {name: scripts[name] for name in _SCRIPTS}
        self._labels = {"app": SWEEP_JOB, "component": Component.SWEEP}
        k8s.KubeConfigMap(
            self,
            "Config",
            metadata=k8s.ObjectMeta(name=SWEEP_JOB),
            data={
                "config.json": config.dump(sweep_config(experiment, bucket, stable)),
                **_indexes(experiment),
            },
            # None where there are none: an empty mapping would be written out.
            binary_data=prompt_files(experiment) or None,
        )
        name = job_name(SWEEP_JOB, self._spec(stable))
        k8s.KubeJob(
            self,
            "Job",
            metadata=k8s.ObjectMeta(name=name, labels=self._labels),
            spec=self._spec(image),
        )

    def _spec(self, image: str) -> k8s.JobSpec:
        indexes = len(variants(self._experiment))
        return k8s.JobSpec(
            completion_mode="Indexed",
            completions=indexes,
            parallelism=indexes,
            backoff_limit_per_index=_RETRIES,
            pod_failure_policy=_failure_policy(),
            active_deadline_seconds=deadline_seconds(self._experiment),
            template=k8s.PodTemplateSpec(
                metadata=k8s.ObjectMeta(
                    labels=self._labels, annotations={"scripts": digest(self._scripts)}
                ),
                spec=_pod(self._experiment, image),
            ),
        )


def run_id(experiment: Experiment) -> str:
    """The sweep's run: the same for every Job whose variants are asked the same.

    So a Job that is made again, for other windows or at another price, keeps what is complete. How
    a variant is served is in the name of its own folder. Nothing in it depends on the account.
    """
    asked = benchmark_config(experiment, "bucket").model_dump(mode="json", include=_ASKED)
    assert experiment.sweep
    told = [asked, experiment.serving.length, experiment.sweep.run]
    return f"{experiment.name}-{digest(told)}"


def sweep_config(experiment: Experiment, bucket: str, image: str) -> config.Config:
    """What all indexes are told. ``image`` is the benchmark's tag, where it is built here."""
    told = benchmark_config(experiment, bucket)
    measured = [
        one.model_copy(update={"served": _served(variant)})
        for one, variant in zip(told.variants, variants(experiment), strict=True)
    ]
    settings = {**told.settings, "Benchmark": experiment.benchmark.image or image[:_SHORT]}
    return told.model_copy(update={"variants": tuple(measured), "settings": settings})


def _served(variant: Variant) -> str:
    command, variables = serve_command(variant), dict(serve_environment(variant))
    return digest([variant.artifact, command, variables])


def _indexes(experiment: Experiment) -> dict[str, str]:
    """What each index is, in files that bash can read. A command has one argument a line."""
    folders = [one.folder for one in sweep_config(experiment, "bucket", "image").variants]
    return {
        f"{index}.{name}": f"{text}\n"
        for index, variant in enumerate(variants(experiment))
        for name, text in (
            ("variant", variant.name),
            ("folder", folders[index]),
            ("artifact", artifact_prefix(variant.artifact)),
            ("serve", "\n".join(serve_command(variant))),
        )
    }


def _failure_policy() -> k8s.PodFailurePolicy:
    """What is no failure of an index, and what is its last. All else is tried again.

    No failures are a graph that is not there yet and a node that is taken away.
    """
    return k8s.PodFailurePolicy(
        rules=[
            _on_status("Ignore", "fetch", NOT_YET),
            _on_status("FailIndex", "fetch", NEVER),
            _on_status("FailIndex", "benchmark", NEVER),
            k8s.PodFailurePolicyRule(
                action="Ignore",
                on_pod_conditions=[
                    k8s.PodFailurePolicyOnPodConditionsPattern(
                        type="DisruptionTarget", status="True"
                    )
                ],
            ),
        ]
    )


def _on_status(action: str, container: str, status: int) -> k8s.PodFailurePolicyRule:
    return k8s.PodFailurePolicyRule(
        action=action,
        on_exit_codes=k8s.PodFailurePolicyOnExitCodesRequirement(
            container_name=container, operator="In", values=[status]
        ),
    )


def _looks() -> list[k8s.EnvVar]:
    """How often this index has looked for its graph in vain, and how often it may.

    Kubernetes counts what it ignores in an annotation, which the first pod does not have: then the
    variable is empty.
    """
    field = f"metadata.annotations['{_IGNORED}']"
    source = k8s.EnvVarSource(field_ref=k8s.ObjectFieldSelector(field_path=field))
    return [
        k8s.EnvVar(name="LOOKED", value_from=source),
        k8s.EnvVar(name="LOOKS", value=str(LOOKS)),
    ]


def _pod(experiment: Experiment, image: str) -> k8s.PodSpec:
    """Brings the artifact, serves, measures: the pod ends when the benchmark does."""
    run = k8s.EnvVar(name="RUN_ID", value=run_id(experiment))
    patience = k8s.EnvVar(name="START_SECONDS", value=str(START_SECONDS))
    indexes = mount("config", CONFIG_PATH, read_only=True)
    script = ["fetch-index.sh", CONFIG_PATH, ARTIFACT_PATH]
    return serving_pod(
        experiment,
        ServiceAccount.SWEEP,
        # An index that failed is a new pod, which the Job counts.
        restart_policy="Never",
        # A compile takes all cores of its node: what is measured beside it would be slower, and
        # the controls need not show it. The scheduler keeps compiles away from these pods, too.
        affinity=not_beside(COMPILES),
        init_containers=[
            fetch("fetch", script, variables=[run, *_looks()], mounts=[indexes]),
            _vllm(experiment, indexes),
        ],
        containers=[
            benchmark_container(image, "benchmark", "index", variables=[run, patience], own=_OWN)
        ],
        volumes=benchmark_volumes(SWEEP_JOB, own=_OWN),
    )


def _vllm(experiment: Experiment, indexes: k8s.VolumeMount) -> k8s.Container:
    """A sidecar, which Kubernetes ends after the benchmark and starts again if it fails.

    Without probes: the benchmark waits for it and says why it does not start. A startup probe that
    failed would begin anew, for ever, and the benchmark would never run.
    """
    environments = [serve_environment(variant) for variant in variants(experiment)]
    assert environments == environments[:1] * len(environments), "a Job's pods have one environment"
    return server(
        experiment,
        ["/bin/bash", f"{SCRIPTS_PATH}/serve-index.sh", CONFIG_PATH, ARTIFACT_PATH],
        environments[0],
        beside=BENCHMARK_ROOM,
        mounts=[indexes, mount("scripts", SCRIPTS_PATH, read_only=True)],
        restart_policy="Always",
    )
