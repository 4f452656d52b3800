"""The quality Job: GSM8K against all services. Suspended until someone starts it."""

from __future__ import annotations

from typing import Final

from cdk8s import Chart
from cdk8s_plus_35 import k8s
from constructs import Construct

from charts.acknowledge import acknowledged
from charts.llmperf import endpoint
from charts.names import NAMESPACE, Component, ServiceAccount, quality_job
from charts.pods import (
    SCRATCH_PATH,
    SCRIPTS_PATH,
    container_security,
    digest,
    empty_dir,
    environment,
    job_name,
    model_store_environment,
    mount,
    pod_security,
    python_command,
    quantities,
    run_id,
    scripts_volume,
)
from charts.scripts import Scripts
from experiment.images import PYTHON, pinned
from experiment.schema import Experiment
from experiment.variants import variants
from spectap.names import RESULTS_PREFIX

MAX_ANSWER_TOKENS: Final = 512
"""Room for a brief solution, as in the published sample. A question is shorter."""


class QualityChart(Chart):
    """A Job to start by hand, since it loads the services. The stack's output says how."""

    def __init__(
        self, scope: Construct, construct_id: str, *, experiment: Experiment, scripts: Scripts
    ) -> None:
        super().__init__(scope, construct_id, namespace=NAMESPACE)
        # Another script or lock makes another Job, under a new name.
        annotations = {"scripts": digest([scripts["quality.py"], scripts["quality.lock"]])}
        name = quality_job(experiment)
        labels = {"app": name, "component": Component.QUALITY}
        pod = _pod(experiment)
        spec = k8s.JobSpec(
            suspend=True,
            backoff_limit=1,
            template=k8s.PodTemplateSpec(
                metadata=k8s.ObjectMeta(labels=labels, annotations=annotations),
                spec=pod,
            ),
        )
        k8s.KubeJob(
            self,
            "Job",
            metadata=k8s.ObjectMeta(
                name=job_name(name, spec), labels=labels, annotations=acknowledged(pod)
            ),
            spec=spec,
        )


def _key(experiment: Experiment) -> dict[str, str]:
    secret = experiment.api_key_secret
    return {"API_KEY_SECRET": secret} if secret else {}


def _pod(experiment: Experiment) -> k8s.PodSpec:
    assert experiment.quality is not None  # a sweep, which may have none, has no such chart
    return k8s.PodSpec(
        service_account_name=ServiceAccount.QUALITY,
        automount_service_account_token=False,
        enable_service_links=False,
        restart_policy="Never",
        security_context=pod_security(),
        containers=[
            k8s.Container(
                name="lm-eval",
                image=pinned(PYTHON),
                command=python_command("quality"),
                args=[
                    experiment.models.target.id,
                    str(experiment.quality.limit),
                    str(experiment.concurrency_without_a_queue),
                    str(min(MAX_ANSWER_TOKENS, experiment.serving.length // 2)),
                    f"{RESULTS_PREFIX}quality/",
                    *(f"{v.name}={endpoint(v)}" for v in variants(experiment) if not v.matched),
                ],
                env=[*environment(_key(experiment)), run_id()],
                env_from=model_store_environment(),
                security_context=container_security(read_only_root=True),
                resources=k8s.ResourceRequirements(
                    requests=quantities(cpu="1", memory="2Gi", ephemeral_storage="4Gi"),
                    limits=quantities(memory="6Gi", ephemeral_storage="12Gi"),
                ),
                volume_mounts=[
                    mount("scratch", SCRATCH_PATH),
                    mount("scripts", SCRIPTS_PATH, read_only=True),
                    mount("tmp", "/tmp"),
                ],
            )
        ],
        volumes=[scripts_volume(), empty_dir("scratch", "5Gi"), empty_dir("tmp", "5Gi")],
    )
