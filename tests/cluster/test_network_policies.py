"""Who reaches whom, by what a real API server holds: addresses, defaults and all."""

from __future__ import annotations

from charts.names import NAMESPACE
from tests.cluster.api import Cluster
from tests.cluster.deployment import Manifests
from tests.network_policies import Network
from tests.reach import allowed, intended, surroundings

SERVICES = {"qwen-vllm", "qwen-sd-vllm"}


def test_pods_reach_what_they_need_and_nothing_else(
    cluster: Cluster, deployment: Manifests
) -> None:
    assert deployment.objects()
    network = cluster.until(lambda: _with_addresses(cluster), "an address for every pod")
    assert {service["metadata"]["name"] for service in network.services} >= SERVICES
    assert allowed(network) == intended(network)


def _with_addresses(cluster: Cluster) -> Network | None:
    """Once each service and the benchmark have a pod with an address."""
    # Lists of the API leave out the kind of their items.
    objects = [
        {**item, "kind": kind}
        for kind in ("Pod", "Service", "NetworkPolicy")
        for item in cluster.all(kind)
    ]
    (namespace,) = (n for n in cluster.all("Namespace", None) if n["metadata"]["name"] == NAMESPACE)
    network = Network([*objects, {**namespace, "kind": "Namespace"}, *surroundings()])
    ready = {pod.labels.get("app") for pod in network.pods}
    return network if {*SERVICES, "qwen-llmperf"} <= ready else None
