"""What the Indexed Jobs have in common: one index a variant, each measured by itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from cdk8s import Chart
from cdk8s_plus_35 import k8s

from charts import scripts as all_scripts
from charts.acknowledge import acknowledged
from charts.deployed import Deployed
from charts.llmperf import CONFIG_PATH, benchmark_config
from charts.names import Component, artifact_prefix
from charts.pods import digest, job_name, mount
from charts.scripts import Scripts
from charts.server import ARTIFACT_PATH, fetch
from experiment.schema import Experiment
from experiment.variants import Variant, variants
from spectap import config

NOT_YET: Final = 75
"""What ``fetch`` ends with where there is no artifact yet: EX_TEMPFAIL of ``sysexits.h``."""

NEVER: Final = 69
"""What a container ends with where another try would hold the devices as long and find the same:
EX_UNAVAILABLE. ``devices``, where its user may not open them; ``fetch``, where it has looked in
vain too often; the benchmark, where no vLLM came to serve; ``generate``, where the image has no
``inference_demo`` that takes these arguments."""

LOOKS: Final = 24
"""How often an index looks for its graph before it fails. It looks only while its node compiles
nothing, and the Job waits between two looks, 10 s and twice as long each time up to 10 min: three
hours for all of them."""

START_SECONDS: Final = 45 * 60
"""The benchmark's patience with what it measures: as long as a service may take to start."""

COMMON_SCRIPTS: Final = ("devices.sh", "complete.sh", "fetch-index.sh", "fetch-artifact.sh")

_RETRIES: Final = 2
_IGNORED: Final = "batch.kubernetes.io/job-index-ignored-failure-count"
_ASKED: Final = {"model", "load", "test_cases", "keep_answers"}
"""Fields of the configuration that decide what is measured of any variant."""
_SHORT: Final = 12
"""Of a digest, which is the tag of an image that is built here, so many digits are shown."""


@dataclass(frozen=True, kw_only=True)
class Indexes:
    """What one kind of Indexed Job does with its variants."""

    name: str
    """Of its ConfigMap, and the beginning of the Job's."""
    component: Component
    file: str
    """What the file with an index's command is called, e.g. ``serve`` for ``0.serve``."""
    command: Callable[[Variant], list[str]]
    environment: Callable[[Variant], Mapping[str, str]]
    scripts: tuple[str, ...]
    """Those of ``charts/scripts`` that its pods run: with others, it is another Job."""
    instruments: tuple[str, ...] = ()
    """Those of ``scripts`` that measure: with others, it is another measurement."""
    parallelism: int
    """How many indexes may run at once."""
    deadline_seconds: int
    """From the Job's start to its end."""
    never: tuple[str, ...]
    """Containers whose status ``NEVER`` fails an index for good."""

    def indexed_config(
        self,
        experiment: Experiment,
        bucket: str,
        image: str,
        stopper: str | None = None,
        prompts_bucket: str | None = None,
    ) -> config.Config:
        """What all indexes are told. ``image`` is the benchmark's tag, where it is built here."""
        told = benchmark_config(experiment, bucket, stopper, prompts_bucket)
        measured = [
            one.model_copy(update={"served": self._served(variant)})
            for one, variant in zip(told.variants, variants(experiment), strict=True)
        ]
        settings = {**told.settings, "Benchmark": experiment.benchmark.image or image[:_SHORT]}
        return told.model_copy(update={"variants": tuple(measured), "settings": settings})

    def shared_environment(self, experiment: Experiment) -> Mapping[str, str]:
        """The environment of every index's command: a Job's pods have one specification."""
        first, *others = [self.environment(variant) for variant in variants(experiment)]
        assert all(other == first for other in others), "a Job's pods have one environment"
        return first

    def add_to(
        self,
        chart: Chart,
        experiment: Experiment,
        deployed: Deployed,
        *,
        scripts: Scripts,
        pod: Callable[[str], k8s.PodSpec],
    ) -> None:
        """Adds the ConfigMap and the Job. ``pod`` makes an index's pod with the benchmark's image.

        What an index is, it reads from the ConfigMap, because the pods of a Job have one
        specification.
        """
        image = deployed.benchmark_image
        # The account stands in the repository of an image that is built here, and must not change
        # the Job's name.
        stable = experiment.benchmark.image or image.rpartition(":")[2]
        told = self.indexed_config(
            experiment, deployed.bucket, stable, deployed.stopper, deployed.prompts_bucket
        )
        k8s.KubeConfigMap(
            chart,
            "Config",
            metadata=k8s.ObjectMeta(name=self.name),
            data={"config.json": config.dump(told), **self._files(experiment)},
        )
        count = len(variants(experiment))
        named = self._spec(count, pod(stable), scripts)
        k8s.KubeJob(
            chart,
            "Job",
            metadata=k8s.ObjectMeta(
                name=job_name(self.name, named),
                labels=self._labels,
                annotations=acknowledged(pod(image)),
            ),
            spec=self._spec(count, pod(image), scripts),
        )

    @property
    def _labels(self) -> dict[str, str]:
        return {"app": self.name, "component": self.component}

    def _spec(self, count: int, pod: k8s.PodSpec, scripts: Scripts) -> k8s.JobSpec:
        used = {name: scripts[name] for name in self.scripts}
        return k8s.JobSpec(
            completion_mode="Indexed",
            completions=count,
            parallelism=self.parallelism,
            backoff_limit_per_index=_RETRIES,
            pod_failure_policy=_failure_policy(self.never),
            active_deadline_seconds=self.deadline_seconds,
            template=k8s.PodTemplateSpec(
                metadata=k8s.ObjectMeta(labels=self._labels, annotations={"scripts": digest(used)}),
                spec=pod,
            ),
        )

    def _served(self, variant: Variant) -> str:
        """Digest of all that decides what is measured of ``variant`` but for what it is asked."""
        told = [variant.artifact, self.command(variant), dict(self.environment(variant))]
        measured_by = [all_scripts.read()[name] for name in self.instruments]
        return digest([*told, *measured_by])

    def _files(self, experiment: Experiment) -> dict[str, str]:
        """What each index is, in files that bash can read. A command has one argument a line."""
        told = self.indexed_config(experiment, "bucket", "image").variants
        return {
            f"{index}.{name}": f"{text}\n"
            for index, variant in enumerate(variants(experiment))
            for name, text in (
                ("variant", variant.name),
                ("folder", told[index].folder),
                ("artifact", artifact_prefix(variant.artifact)),
                (self.file, "\n".join(self.command(variant))),
            )
        }


def run_id(experiment: Experiment) -> str:
    """The run of an experiment's indexes: the same for every Job whose variants are asked the same.

    So a Job that is made again, for other windows or at another price, keeps what is complete. How
    a variant is served is in the name of its own folder. Nothing in it depends on the account.
    """
    asked = benchmark_config(experiment, "bucket").model_dump(mode="json", include=_ASKED)
    number = experiment.sweep.run if experiment.sweep else "jobs"
    told = [asked, experiment.serving.length, number]
    return f"{experiment.name}-{digest(told)}"


def run_variable(experiment: Experiment) -> k8s.EnvVar:
    """``RUN_ID`` of all containers of an index."""
    return k8s.EnvVar(name="RUN_ID", value=run_id(experiment))


def patience() -> k8s.EnvVar:
    """``START_SECONDS`` of the benchmark."""
    return k8s.EnvVar(name="START_SECONDS", value=str(START_SECONDS))


def config_mount() -> k8s.VolumeMount:
    """Where an index finds what it is."""
    return mount("config", CONFIG_PATH, read_only=True)


def fetch_index(experiment: Experiment) -> k8s.Container:
    """Brings the artifact of an index, or ends as ``NOT_YET`` and ``NEVER`` say."""
    return fetch(
        "fetch",
        ["fetch-index.sh", CONFIG_PATH, ARTIFACT_PATH],
        variables=[run_variable(experiment), *_looks()],
        mounts=[config_mount()],
    )


def _failure_policy(never: Sequence[str]) -> k8s.PodFailurePolicy:
    """What is no failure of an index, and what is its last. All else is tried again.

    No failures are a graph that is not there yet and a node that is taken away.
    """
    return k8s.PodFailurePolicy(
        rules=[
            _on_status("Ignore", "fetch", NOT_YET),
            *(_on_status("FailIndex", container, NEVER) for container in never),
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
