"""One vLLM service: a Deployment and a Service. All variants are built here, so all are alike."""

from __future__ import annotations

from cdk8s import Chart
from cdk8s_plus_35 import k8s
from constructs import Construct

from charts.names import NAMESPACE, VLLM_PORT, Component, ServiceAccount, artifact_prefix
from charts.server import (
    ARTIFACT_PATH,
    fetch,
    serve_command,
    serve_environment,
    server,
    serving_pod,
)
from experiment.variants import Variant


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


def _pod(variant: Variant) -> k8s.PodSpec:
    return serving_pod(
        variant.experiment,
        ServiceAccount.SERVE,
        # Waits for the compile Job's completion marker.
        init_containers=[
            fetch(
                "fetch-artifact",
                ["fetch-artifact.sh", artifact_prefix(variant.artifact), ARTIFACT_PATH],
            )
        ],
        containers=[
            server(
                variant.experiment,
                serve_command(variant),
                serve_environment(variant),
                # /health answers once the model is loaded: tens of gigabytes are copied onto the
                # devices, then warmed up. The compile Job has compiled it.
                startup_probe=_probe(period=10, failures=270),
                readiness_probe=_probe(period=5, failures=3),
                liveness_probe=_probe(period=20, failures=6),
            )
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
