"""Why a pod has no node, in the words of the real scheduler and controllers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from kubernetes.client import CoreV1Api

from charts.names import NAMESPACE
from deployment.pods import reason as reason_of
from tests.cluster.api import Cluster, Manifest
from tests.cluster.deployment import Manifests

TRAINIUM = {
    "nodeSelector": {"speculative-decoding/node-group": "trainium"},
    "tolerations": [{"key": "aws.amazon.com/neuron", "operator": "Exists"}],
}


def _restricted(resources: dict[str, Any], **spec: Any) -> dict[str, Any]:
    security = {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "runAsNonRoot": True,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    container = {"name": "c", "image": "any", "securityContext": security, "resources": resources}
    return {"containers": [container], **spec}


@pytest.fixture
def reason(cluster: Cluster, deployment: Manifests) -> Iterator[Any]:
    """Makes a pod and says why it waits."""
    created: list[Manifest] = []

    def ask(spec: dict[str, Any], word: str) -> str:
        metadata = {"name": f"asked-{len(created)}", "namespace": NAMESPACE}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
        created.append(cluster.create(pod, NAMESPACE))
        api = cluster.client.client

        def look() -> str | None:
            read = CoreV1Api(api).read_namespaced_pod(metadata["name"], NAMESPACE)
            explanation = reason_of(api, read)
            return explanation if explanation and word in explanation else None

        return cluster.until(look, f"{word!r} as the reason")

    yield ask
    for pod in created:
        cluster.delete(pod)


def test_the_newest_event_says_why(reason: Any) -> None:
    volume = [{"name": "v", "persistentVolumeClaim": {"claimName": "absent"}}]
    claims = [{"name": "d", "resourceClaimTemplateName": "absent"}]
    for memory, spec, event, words in (
        ("9Ti", TRAINIUM, "FailedScheduling", "Insufficient memory"),
        ("1Mi", {"volumes": volume}, "FailedScheduling", '"absent" not found'),
        ("1Mi", {"resourceClaims": claims}, "FailedResourceClaimCreation", 'template "absent"'),
    ):
        amount = {"memory": memory}
        resources = {"requests": amount, "limits": amount}
        assert words in reason(_restricted(resources, **spec), event)
