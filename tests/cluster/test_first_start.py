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


def test_there_is_no_compile_job(cluster: Cluster, first_start: Manifests) -> None:
    assert first_start
    steps = [job["metadata"]["labels"].get("step") for job in cluster.all("Job")]
    assert "download" in steps
    assert "compile" not in steps


def test_the_api_server_keeps_the_sidecar_the_probe_and_the_deadline(
    cluster: Cluster, first_start: Manifests
) -> None:
    """It admits the pods under Pod Security ``restricted``, and drops no field that it is told."""
    for service in SERVICES:
        rendered = first_start.named("Deployment", service)["spec"]
        applied = cluster.get("Deployment", service)
        assert applied is not None
        deadline = applied["spec"]["progressDeadlineSeconds"]
        assert deadline == rendered["progressDeadlineSeconds"] == 36000
        spec = service_pod(cluster, service)["spec"]
        (server,) = spec["containers"]
        assert server["startupProbe"]["failureThreshold"] * 10 == 4 * 60 * 60
        _, fetch, keep = spec["initContainers"]
        assert (fetch.get("restartPolicy"), keep["restartPolicy"]) == (None, "Always")
        mounts = {mount["mountPath"]: mount for mount in server["volumeMounts"]}
        assert mounts["/var/tmp/nki-intermediate-cache"]["subPath"] == "nki"


def test_the_scheduler_counts_the_sidecar_in(cluster: Cluster, first_start: Manifests) -> None:
    assert first_start
    for service in SERVICES:
        spec = service_pod(cluster, service)["spec"]
        running = [spec["initContainers"][-1], *spec["containers"]]
        cpus = [container["resources"]["requests"]["cpu"] for container in running]
        assert cpus == ["1", "80"]
