"""Jobs that fill the bucket with checkpoints and compiled graphs.

Checkpoints pass through a CPU node, graphs through the NVMe of a Trainium node. Each Job is
idempotent: a second run finds the completion marker and does nothing.
"""

from __future__ import annotations

from typing import Final

from cdk8s import Chart
from cdk8s_plus_35 import k8s
from constructs import Construct

from charts.acknowledge import acknowledged
from charts.compilation import DEADLINE_SECONDS, compile_pod
from charts.names import (
    NAMESPACE,
    SCRIPTS_CONFIG,
    Component,
    ServiceAccount,
    model_prefix,
)
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
    scripts_volume,
)
from charts.scripts import Scripts
from experiment.images import PYTHON, pinned
from experiment.runtimes import Preparation
from experiment.schema import Experiment
from experiment.variants import variants

_TOKEN_PATH: Final = "/hugging-face"
_SCRIPTS: Final = {
    "download": ("download.py", "download.lock"),
    "compile": (
        "complete.sh",
        "await-checkpoints.sh",
        "prepare_draft.py",
        "prepare_medusa.py",
        "compile.sh",
        "upload-artifact.sh",
    ),
}


class PreparationChart(Chart):
    """The download Job and one compile Job per variant that needs one."""

    def __init__(
        self, scope: Construct, construct_id: str, *, experiment: Experiment, scripts: Scripts
    ) -> None:
        super().__init__(scope, construct_id, namespace=NAMESPACE)
        self._scripts = scripts
        k8s.KubeConfigMap(
            self,
            "Scripts",
            metadata=k8s.ObjectMeta(name=SCRIPTS_CONFIG),
            data=dict(scripts),
        )
        self._job("Download", "download", "download", _download(experiment))
        for variant in variants(experiment):
            if variant.runtime.preparation is Preparation.FIRST_START:
                continue
            self._job(
                f"Compile-{variant.service}",
                f"compile-{variant.service}",
                "compile",
                compile_pod(variant),
            )

    def _job(self, construct_id: str, name: str, step: str, pod: k8s.PodSpec) -> None:
        labels = {"component": Component.PREPARE, "step": step}
        # A Job that failed in a script runs again, under a new name, once the script is fixed.
        scripts = {script: self._scripts[script] for script in _SCRIPTS[step]}
        spec = k8s.JobSpec(
            backoff_limit=3,
            template=k8s.PodTemplateSpec(
                metadata=k8s.ObjectMeta(labels=labels, annotations={"scripts": digest(scripts)}),
                spec=pod,
            ),
        )
        k8s.KubeJob(
            self,
            construct_id,
            metadata=k8s.ObjectMeta(
                name=job_name(name, spec), labels=labels, annotations=acknowledged(pod)
            ),
            spec=spec,
        )


def _download(experiment: Experiment) -> k8s.PodSpec:
    """Copies the checkpoints, a file at a time: the node needs room for one shard only."""
    drafts = (variant.draft for variant in variants(experiment))
    # Two variants may share a draft.
    checkpoints = dict.fromkeys(
        f"{model.id}@{model.revision}={model_prefix(model.id, model.revision)}"
        for model in (experiment.models.target, *drafts)
        if model
    )
    return k8s.PodSpec(
        service_account_name=ServiceAccount.PREPARE,
        automount_service_account_token=False,
        enable_service_links=False,
        restart_policy="OnFailure",
        active_deadline_seconds=DEADLINE_SECONDS,
        security_context=pod_security(),
        containers=[
            k8s.Container(
                name="download",
                image=pinned(PYTHON),
                command=python_command("download"),
                args=[*checkpoints],
                env=[
                    *environment(
                        {
                            # The client caches what it fetches. In memory that would exceed the
                            # limit.
                            "HF_HOME": f"{SCRATCH_PATH}/hub",
                            "HF_TOKEN_PATH": f"{_TOKEN_PATH}/token",
                        }
                    )
                ],
                env_from=model_store_environment(),
                security_context=container_security(read_only_root=True),
                resources=k8s.ResourceRequirements(
                    requests=quantities(cpu="1", memory="2Gi", ephemeral_storage="20Gi"),
                    limits=quantities(memory="4Gi", ephemeral_storage="50Gi"),
                ),
                volume_mounts=[
                    mount("scratch", SCRATCH_PATH),
                    mount("scripts", SCRIPTS_PATH, read_only=True),
                    mount("token", _TOKEN_PATH, read_only=True),
                    mount("tmp", "/tmp"),
                ],
            )
        ],
        volumes=[
            scripts_volume(),
            # For gated models; Qwen's need none. A file, which no process inherits.
            k8s.Volume(
                name="token",
                secret=k8s.SecretVolumeSource(secret_name="hugging-face", optional=True),
            ),
            empty_dir("scratch", "40Gi"),
            empty_dir("tmp", "5Gi"),
        ],
    )
