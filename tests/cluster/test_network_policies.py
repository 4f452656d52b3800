"""Who reaches whom, by what a real API server holds: labels of the pods it made, and defaults."""

from __future__ import annotations

from typing import Any

from charts.names import Component
from tests.cluster.api import Cluster
from tests.cluster.deployment import Manifests
from tests.reach import allowed, intended


def test_pods_reach_what_they_need_and_nothing_else(
    cluster: Cluster, deployment: Manifests
) -> None:
    assert deployment.objects()
    labels = cluster.until(lambda: _labels(cluster), "a pod of each service and its benchmark")
    policies = cluster.all("NetworkPolicy")
    for pod in labels:
        assert allowed(policies, pod) == intended(pod["component"])


def _labels(cluster: Cluster) -> list[dict[str, Any]] | None:
    labels = [pod["metadata"]["labels"] for pod in cluster.all("Pod")]
    components = {each.get("component") for each in labels}
    return labels if {Component.VLLM, Component.BENCHMARK} <= components else None
