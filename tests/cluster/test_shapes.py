"""Other shapes of services: compiled at their first start, or on a whole node each."""

from __future__ import annotations

from collections.abc import Callable

from experiment import Experiment
from tests.charts.test_vllm import EAGLE3
from tests.cluster.api import Cluster
from tests.cluster.conftest import add_trainium
from tests.cluster.deployment import Manifests, deployed, node_with_label, service_devices
from tests.cluster.kubelets import Kubelets
from tests.matrix import MATRIX, WHOLE_NODES
from tests.synthesis import Synthesised

SERVICES = ("qwen-vllm", "qwen-sd-vllm")


def test_both_compile_on_one_node_each_on_a_claim_of_its_own(
    cluster: Cluster,
    kubelets: Kubelets,
    synthesised: Synthesised,
    variation: Callable[..., Experiment],
    rendered: Callable[[Experiment], Manifests],
) -> None:
    """The scheduler counts the sidecar in, which keeps what was compiled."""
    # Under the name that the cluster's volume has: a claim cannot change its volume.
    with deployed(cluster, rendered(variation(EAGLE3 | {"name": synthesised.experiment.name}))):
        nodes = [node_with_label(cluster, "app", service) for service in SERVICES]
        assert nodes == ["trainium-0"] * 2
        allocated = [device for s in SERVICES for device in service_devices(cluster, s)]
        assert len(set(allocated)) == len(allocated) == 16


def test_each_service_gets_all_devices_of_a_node(
    cluster: Cluster,
    kubelets: Kubelets,
    synthesised: Synthesised,
    variation: Callable[..., Experiment],
    rendered: Callable[[Experiment], Manifests],
) -> None:
    experiment = variation(MATRIX[WHOLE_NODES] | {"name": synthesised.experiment.name})
    second = add_trainium(cluster, kubelets, synthesised, 2)
    try:
        with deployed(cluster, rendered(experiment)):
            nodes = [node_with_label(cluster, "app", service) for service in SERVICES]
            assert sorted(nodes) == ["trainium-0", second]
            for service, node in zip(SERVICES, nodes, strict=True):
                allocated = service_devices(cluster, service)
                assert {pool for pool, _ in allocated} == {node}
                assert len(set(allocated)) == len(allocated) == 16
    finally:
        kubelets.remove(second)
