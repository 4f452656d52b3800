"""One vLLM service: a Deployment and a Service. All variants are built here, so all are alike."""

from typing import Any, Final

from cdk8s import Chart
from cdk8s_plus_35 import k8s

from charts import pods
from charts.names import VLLM_PORT, Component, ServiceAccount, artifact_prefix, model_prefix
from charts.server import (
    ARTIFACT_PATH,
    KEY_FILE,
    fetch,
    key_mount,
    on_devices,
    program,
    server,
    serving_pod,
)
from experiment.cost.timeline import FIRST_START_SECONDS
from experiment.runtimes import Preparation
from experiment.variants import Variant

# Where a pod's containers tell each other about the cache, in a folder that they share.
_NOTES: Final = "/tmp/first-start"
_POD: Final = pods.reference("POD_UID", "metadata.uid")

UNINSTRUMENTED: Final = {
    f"instrumentation.opentelemetry.io/inject-{language}": "false"
    for language in ("dotnet", "java", "nodejs", "python")
}
"""Keeps agents out of vLLM, whose times are what is measured: CloudWatch's add-on puts them into
each Deployment behind a Service, unless it finds these annotations there (``monitor.go``)."""


def add_vllm(chart: Chart, variant: Variant) -> None:
    """The service of one variant."""
    labels = {"app": variant.service, "component": Component.VLLM}
    port = k8s.IntOrString.from_number(VLLM_PORT)
    k8s.KubeService(
        chart,
        "Service",
        metadata=k8s.ObjectMeta(name=variant.service, labels=labels),
        spec=k8s.ServiceSpec(
            # The clients' policies select by these labels: the VPC CNI lets a pod reach a
            # ClusterIP only if the policy selects the Service's own selector.
            selector=labels,
            ports=[k8s.ServicePort(name="http", port=VLLM_PORT, target_port=port)],
        ),
    )
    compiles = variant.runtime.preparation is Preparation.FIRST_START
    serves = _compiles_at_first_start(variant) if compiles else _loads_what_is_compiled(variant)
    k8s.KubeDeployment(
        chart,
        "Deployment",
        metadata=k8s.ObjectMeta(
            name=variant.service,
            labels=labels,
            annotations=pods.acknowledged(serves, pods.ONE_ON_ITS_DEVICES),
        ),
        spec=k8s.DeploymentSpec(
            replicas=1,
            selector=k8s.LabelSelector(match_labels={"app": variant.service}),
            # The services hold the devices of their nodes: a pod started beside the old one
            # would wait for ever.
            strategy=k8s.DeploymentStrategy(type="Recreate"),
            # Until a pod serves: it waits for checkpoints and graphs. A first start compiles
            # them itself.
            progress_deadline_seconds=6 * 60 * 60 + (FIRST_START_SECONDS if compiles else 0),
            revision_history_limit=2,
            template=k8s.PodTemplateSpec(
                metadata=k8s.ObjectMeta(
                    labels=labels, annotations=UNINSTRUMENTED | pods.UNDISTURBED
                ),
                spec=serves,
            ),
        ),
    )


def _loads_what_is_compiled(variant: Variant) -> k8s.PodSpec:
    prefix = artifact_prefix(variant.artifact)
    return serving_pod(
        variant.experiment,
        ServiceAccount.SERVE,
        # Waits for the compile Job's completion marker.
        init_containers=[fetch("fetch-artifact", ["fetch-artifact.sh", prefix, ARTIFACT_PATH])],
        containers=[
            server(
                variant.experiment,
                *program(variant),
                # /health answers once the model is loaded: tens of gigabytes are copied onto the
                # devices, then warmed up. The compile Job has compiled it.
                **_probes(start_seconds=45 * 60),
            )
        ],
    )


def _compiles_at_first_start(variant: Variant) -> k8s.PodSpec:
    """Brings the cache from the bucket, or compiles and keeps it there.

    All services of a node may do so at once. The compiler runs on the CPUs and in the memory that
    each of them has for its devices, which a compile Job would not use beside them.
    """
    experiment, runtime = variant.experiment, variant.runtime
    prefix = artifact_prefix(variant.artifact)
    served = experiment.models.target.id
    checkpoints = map(model_prefix, variant.models)
    settings = [f"{name}={value}" for name, value in runtime.complete_environment.items()]
    cached = [pods.mount("artifact", path, folder=name) for name, path in runtime.cached_at.items()]
    command, environment = program(variant)
    serve_cached = ["/bin/bash", f"{pods.SCRIPTS_PATH}/serve-cached.sh", _NOTES, *settings]
    keyed = experiment.serving.api_key
    key_file = [k8s.EnvVar(name="KEY_FILE", value=KEY_FILE)] if keyed else []
    return serving_pod(
        experiment,
        ServiceAccount.SERVE,
        init_containers=[
            fetch("fetch-cache", ["fetch-cache.sh", prefix, ARTIFACT_PATH, _NOTES, *checkpoints]),
            # A sidecar, which ends after vLLM.
            fetch(
                "keep-cache",
                ["keep-cache.sh", prefix, ARTIFACT_PATH, _NOTES, str(VLLM_PORT), served],
                references=[_POD, *key_file],
                mounts=[key_mount()] if keyed else [],
                cpu=1,
                restart_policy="Always",
                # The benchmark begins once this has sent its request, which the server counts.
                readiness_probe=k8s.Probe(
                    exec=k8s.ExecAction(command=["test", "-e", f"{_NOTES}/settled"]),
                    period_seconds=5,
                ),
            ),
        ],
        containers=[
            on_devices(
                experiment,
                "vllm",
                [*serve_cached, *command],
                environment,
                artifact=pods.mount("artifact", ARTIFACT_PATH),
                mounts=[pods.SCRIPTS_MOUNT, *cached],
                disk=200,
                ports=[k8s.ContainerPort(name="http", container_port=VLLM_PORT)],
                **_probes(start_seconds=FIRST_START_SECONDS),
            )
        ],
        # The compiler works there.
        scratch="100Gi",
    )


def _probes(*, start_seconds: int) -> dict[str, Any]:
    """Probes of a server that may take so long until it answers.

    ``/health`` asks the engine: without it, a pod gets no requests. A dead engine ends its process
    (vLLM 0.9.1, ``entrypoints/launcher.py``). So only a server that does not even tell its version
    is to be started again: one that is merely busy would lose minutes, and what it has measured.
    """
    return {
        "startup_probe": _probe("/health", period=10, failures=start_seconds // 10),
        "readiness_probe": _probe("/health", period=5, failures=3),
        "liveness_probe": _probe("/version", period=20, failures=6),
    }


def _probe(path: str, *, period: int, failures: int) -> k8s.Probe:
    """Fails after ``period`` x ``failures`` seconds without an answer."""
    return k8s.Probe(
        http_get=k8s.HttpGetAction(path=path, port=k8s.IntOrString.from_string("http")),
        period_seconds=period,
        failure_threshold=failures,
        timeout_seconds=5,
    )
