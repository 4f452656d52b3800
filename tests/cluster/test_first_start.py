"""Services that compile at their first start, on the real API server and scheduler."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from experiment import Experiment
from tests.charts.test_first_start import EAGLE3
from tests.cluster.api import Cluster
from tests.cluster.deployment import Manifests, deployed, service_devices, service_pod
from tests.cluster.kubelets import Kubelets
from tests.synthesis import Synthesised

SERVICES = ("qwen-vllm", "qwen-sd-vllm")


@pytest.fixture(scope="module")
def first_start(
    cluster: Cluster,
    kubelets: Kubelets,
    synthesised: Synthesised,
    variation: Callable[..., Experiment],
    rendered: Callable[[Experiment], Manifests],
) -> Iterator[Manifests]:
    """A baseline and EAGLE3 on vllm-neuron, applied."""
    assert kubelets
    # Under the name that the cluster's volume has: a claim cannot change its volume.
    manifests = rendered(variation(EAGLE3 | {"name": synthesised.experiment.name}))
    with deployed(cluster, manifests):
        yield manifests


def test_both_compile_on_one_node_each_on_a_claim_of_its_own(
    cluster: Cluster, first_start: Manifests
) -> None:
    assert first_start
    allocations = []
    for service in SERVICES:
        assert service_pod(cluster, service)["spec"]["nodeName"] == "trainium-0"
        allocations.append(set(service_devices(cluster, service)))
    assert [len(of_one) for of_one in allocations] == [8, 8]
    assert not allocations[0] & allocations[1]


def test_the_scheduler_counts_the_sidecar_in(cluster: Cluster, first_start: Manifests) -> None:
    assert first_start
    for service in SERVICES:
        spec = service_pod(cluster, service)["spec"]
        running = [spec["initContainers"][-1], *spec["containers"]]
        assert running[0]["restartPolicy"] == "Always"
        cpus = [container["resources"]["requests"]["cpu"] for container in running]
        assert cpus == ["1", "80"]
