"""Another shape of claim: services that take a whole node each, with nothing else deployed."""

from __future__ import annotations

from collections.abc import Callable

from experiment import Experiment
from tests.cluster.api import Cluster
from tests.cluster.conftest import add_trainium
from tests.cluster.deployment import Manifests, deployed, node_with_label, service_devices
from tests.cluster.kubelets import Kubelets
from tests.matrix import MATRIX, WHOLE_NODES
from tests.synthesis import Synthesised

SERVICES = ("qwen-vllm", "qwen-sd-vllm")


def test_each_service_gets_all_devices_of_a_node(
    cluster: Cluster,
    kubelets: Kubelets,
    synthesised: Synthesised,
    variation: Callable[..., Experiment],
    rendered: Callable[[Experiment], Manifests],
) -> None:
    # Under the name that the cluster's volume has: a claim cannot change its volume.
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
