"""One vLLM service: a Deployment and a Service. All variants are built here, so all are alike."""

from __future__ import annotations

from typing import Final

from cdk8s import Chart
from cdk8s_plus_35 import k8s
from constructs import Construct

from charts.names import (
    MODELS_PREFIX,
    NAMESPACE,
    NODE_GROUP_LABEL,
    TRAINIUM_NODES,
    VLLM_PORT,
    Component,
    ServiceAccount,
    artifact_prefix,
    claim_template,
    model_prefix,
)
from charts.pods import (
    AWS_CLI_IMAGE,
    MODELS_PATH,
    SCRIPTS_PATH,
    container_security,
    empty_dir,
    environment,
    model_store_environment,
    models_volume,
    mount,
    neuron_toleration,
    pod_security,
    quantities,
    scripts_volume,
)
from experiment.model import Model
from experiment.runtimes import Paths
from experiment.variants import Variant

ARTIFACT_PATH: Final = "/artifact"

# For each device that a service has. Sixteen make a trn2.48xlarge (192 vCPU, 2 TiB), less what
# compiling and the node's own pods need.
_CPU: Final = 10
_MEMORY_GIB: Final = 80
_SHARED_MEMORY_GIB: Final = 16


class VllmChart(Chart):
    """The service of one variant."""

    def __init__(self, scope: Construct, construct_id: str, *, variant: Variant) -> None:
        super().__init__(scope, construct_id, namespace=NAMESPACE)
        self._labels = {"app": variant.service, "component": Component.VLLM}
        k8s.KubeService(
            self,
            "Service",
            metadata=k8s.ObjectMeta(name=variant.service, labels=self._labels),
            spec=k8s.ServiceSpec(
                # The clients' policies select by these labels: the VPC CNI lets a pod reach a
                # ClusterIP only if the policy selects the Service's own selector.
                selector=self._labels,
                ports=[
                    k8s.ServicePort(
                        name="http",
                        port=VLLM_PORT,
                        target_port=k8s.IntOrString.from_number(VLLM_PORT),
                    )
                ],
            ),
        )
        k8s.KubeDeployment(
            self,
            "Deployment",
            metadata=k8s.ObjectMeta(name=variant.service, labels=self._labels),
            spec=k8s.DeploymentSpec(
                replicas=1,
                selector=k8s.LabelSelector(match_labels={"app": variant.service}),
                # The services hold the devices of their nodes: a pod started beside the old one
                # would wait for ever.
                strategy=k8s.DeploymentStrategy(type="Recreate"),
                # The pod waits for its artifact, which may take hours the first time.
                progress_deadline_seconds=6 * 60 * 60,
                revision_history_limit=2,
                template=k8s.PodTemplateSpec(
                    metadata=k8s.ObjectMeta(labels=self._labels), spec=_pod(variant)
                ),
            ),
        )


def paths(variant: Variant, *, artifact: str, scratch: str) -> Paths:
    """Where the containers of ``variant`` find what their command lines name."""
    draft = checkpoint_path(variant.draft) if variant.draft else None
    target = checkpoint_path(variant.experiment.models.target)
    return Paths(target=target, draft=draft, artifact=artifact, scratch=scratch)


def checkpoint_path(model: Model) -> str:
    """Where a checkpoint is mounted, e.g. ``/models/Qwen/Qwen3-32B/<revision>``."""
    below_mount = model_prefix(model.id, model.revision).removeprefix(MODELS_PREFIX)
    return f"{MODELS_PATH}/{below_mount}".rstrip("/")


def serve_command(variant: Variant) -> list[str]:
    """What the service of ``variant`` runs."""
    return variant.runtime.serve_command(variant, _paths(variant), VLLM_PORT)


def _paths(variant: Variant) -> Paths:
    return paths(variant, artifact=ARTIFACT_PATH, scratch="/tmp")


def _pod(variant: Variant) -> k8s.PodSpec:
    devices = variant.experiment.serving.devices
    return k8s.PodSpec(
        service_account_name=ServiceAccount.SERVE,
        automount_service_account_token=False,
        # The variables that Kubernetes injects for a Service can clash with vLLM's own, such as
        # VLLM_PORT.
        enable_service_links=False,
        security_context=pod_security(),
        # Shorter than the ten minutes after which Mountpoint's own pod ends.
        termination_grace_period_seconds=120,
        resource_claims=[
            k8s.PodResourceClaim(
                name="devices", resource_claim_template_name=claim_template(variant.experiment)
            )
        ],
        init_containers=[_fetch_artifact(variant)],
        containers=[_server(variant)],
        volumes=[
            models_volume(),
            scripts_volume(),
            # Compiled graph and sharded weights, on the node's NVMe.
            empty_dir("artifact", "300Gi"),
            empty_dir("shared-memory", f"{devices * _SHARED_MEMORY_GIB}Gi", medium="Memory"),
            empty_dir("tmp", "50Gi"),
        ],
        node_selector={NODE_GROUP_LABEL: TRAINIUM_NODES},
        tolerations=[neuron_toleration()],
    )


def _fetch_artifact(variant: Variant) -> k8s.Container:
    """Waits for the compile Job's completion marker, then fetches graph and shards."""
    return k8s.Container(
        name="fetch-artifact",
        image=AWS_CLI_IMAGE,
        command=["/bin/bash", f"{SCRIPTS_PATH}/fetch-artifact.sh"],
        args=[artifact_prefix(variant.artifact), ARTIFACT_PATH],
        env=environment({}),
        env_from=model_store_environment(),
        security_context=container_security(read_only_root=True),
        resources=k8s.ResourceRequirements(
            requests=quantities(cpu="4", memory="4Gi"), limits=quantities(memory="8Gi")
        ),
        volume_mounts=[
            mount("artifact", ARTIFACT_PATH),
            mount("scripts", SCRIPTS_PATH, read_only=True),
            mount("tmp", "/tmp"),
        ],
    )


def _server(variant: Variant) -> k8s.Container:
    runtime, devices = variant.runtime, variant.experiment.serving.devices
    memory = f"{devices * _MEMORY_GIB}Gi"
    return k8s.Container(
        name="vllm",
        image=runtime.image,
        command=serve_command(variant),
        working_dir="/tmp",
        env=environment(
            {**runtime.serve_environment(variant, _paths(variant)), "HF_HUB_OFFLINE": "1"}
        ),
        ports=[k8s.ContainerPort(name="http", container_port=VLLM_PORT)],
        # The Neuron tools write logs and caches next to themselves.
        security_context=container_security(read_only_root=False),
        resources=k8s.ResourceRequirements(
            claims=[k8s.ResourceClaim(name="devices")],
            requests=quantities(cpu=str(devices * _CPU), memory=memory),
            limits=quantities(memory=memory),
        ),
        # /health answers once the model is loaded: tens of gigabytes are copied onto the devices,
        # then warmed up. The compile Job has compiled it.
        startup_probe=_probe(period=10, failures=270),
        readiness_probe=_probe(period=5, failures=3),
        liveness_probe=_probe(period=20, failures=6),
        volume_mounts=[
            mount("models", MODELS_PATH, read_only=True),
            # Read-only: the loader compiles again what it cannot read, for hours and with its own
            # defaults, and begins by writing here. This makes it fail instead.
            mount("artifact", ARTIFACT_PATH, read_only=True),
            mount("shared-memory", "/dev/shm"),
            mount("tmp", "/tmp"),
        ],
    )


def _probe(*, period: int, failures: int) -> k8s.Probe:
    """Fails after ``period`` x ``failures`` seconds without an answer."""
    return k8s.Probe(
        http_get=k8s.HttpGetAction(path="/health", port=k8s.IntOrString.from_string("http")),
        period_seconds=period,
        failure_threshold=failures,
        timeout_seconds=5,
    )
