"""Where the scheduler puts the pods, and which devices it gives them."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from functools import partial

import pytest

from charts.names import NAMESPACE, Component
from experiment import Experiment
from tests.cluster.api import Cluster, Manifest
from tests.cluster.conftest import add_trainium
from tests.cluster.deployment import (
    Manifests,
    Unschedulable,
    claim,
    devices,
    group,
    node_of,
    node_with_label,
    pods,
    refusal,
    service_devices,
    succeeded,
)
from tests.cluster.kubelets import Kubelets
from tests.experiment.files import ON_TRAINIUM
from tests.synthesis import Synthesised

SERVICES = ("qwen-vllm", "qwen-sd-vllm")


def test_both_services_fit_one_node_each_on_a_whole_group_of_devices(
    cluster: Cluster, deployment: Manifests
) -> None:
    assert [node_with_label(cluster, "app", service) for service in SERVICES] == ["trainium-0"] * 2
    allocations = [service_devices(cluster, service) for service in SERVICES]
    assert [len(of_one) for of_one in allocations] == [8, 8]
    assert len({device for of_one in allocations for device in of_one}) == 16
    groups = [{group(cluster, device) for device in of_one} for of_one in allocations]
    assert [len(of_one) for of_one in groups] == [1, 1]
    assert groups[0] != groups[1]


def test_clients_and_download_go_to_cpu_nodes(cluster: Cluster, deployment: Manifests) -> None:
    job = deployment.named("Job", "qwen-lmeval")
    cluster.patch(job, {"spec": {"suspend": False}})
    nodes = [
        node_with_label(cluster, "app", "qwen-llmperf"),
        node_with_label(cluster, "app", "qwen-lmeval"),
        node_with_label(cluster, "step", "download"),
    ]
    assert {node.partition("-")[0] for node in nodes} == {"system"}


def test_each_graph_is_compiled_on_a_cpu_node_of_its_own(
    cluster: Cluster, deployment: Manifests
) -> None:

    def placed() -> list[str] | None:
        nodes = [pod["spec"].get("nodeName") for pod in pods(cluster, "step", "compile")]
        return sorted(nodes) if nodes and all(nodes) else None

    assert cluster.until(placed, "places for both compilers") == ["compile-0", "compile-1"]


@pytest.fixture
def on_trainium(
    cluster: Cluster,
    deployment: Manifests,
    variation: Callable[..., Experiment],
    rendered: Callable[[Experiment], Manifests],
) -> Iterator[list[str]]:
    """The same Jobs as a file has them that compiles on Trainium; their names."""
    objects = rendered(variation(ON_TRAINIUM)).objects()
    jobs = [
        job for job in objects if job["kind"] == "Job" and "compile-" in job["metadata"]["name"]
    ]
    for job in jobs:
        cluster.create(job, NAMESPACE)
    yield [job["metadata"]["name"] for job in jobs]
    for job in jobs:
        cluster.delete(job)


def test_one_graph_is_compiled_beside_the_services_at_a_time(
    cluster: Cluster, kubelets: Kubelets, on_trainium: list[str]
) -> None:
    names = on_trainium

    def placed() -> list[Manifest] | None:
        return [p for p in compiling() if p["spec"].get("nodeName")] or None

    def waiting() -> list[str] | None:
        return [reason for p in compiling() if (reason := refusal(p))] or None

    def compiling() -> list[Manifest]:
        compilers = pods(cluster, "step", "compile")
        return [p for p in compilers if p["metadata"]["labels"]["job-name"] in names]

    (first,) = cluster.until(placed, "a place for a compiler")
    assert first["spec"]["nodeName"] == "trainium-0"
    (reason,) = cluster.until(waiting, "the word about the second compiler")
    # Where there were room for a second, its anti-affinity would keep it away.
    assert "Insufficient cpu" in reason
    kubelets.finish(names)
    for name in names:
        cluster.until(partial(succeeded, cluster, name), f"the end of {name}")


@pytest.fixture
def third(cluster: Cluster, deployment: Manifests) -> Iterator[Manifest]:
    """A pod with a claim like the services', asking for little else."""
    service = deployment.named("Deployment", SERVICES[0])
    for name in SERVICES:
        node_with_label(cluster, "app", name)
    spec = copy.deepcopy(service["spec"]["template"]["spec"])
    for container in (*spec["initContainers"], *spec["containers"]):
        container["resources"]["requests"] = {"cpu": "1", "memory": "1Gi"}
    metadata = {
        "name": "third",
        "namespace": NAMESPACE,
        "labels": {"app": "third", "component": Component.VLLM.value},
    }
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
    yield cluster.create(pod, NAMESPACE)
    cluster.delete(pod)


def test_a_third_claim_waits_for_a_second_node(
    cluster: Cluster, kubelets: Kubelets, synthesised: Synthesised, third: Manifest
) -> None:
    assert third["status"]["phase"] == "Pending"
    find = partial(cluster.get, "Pod", "third")
    with pytest.raises(Unschedulable, match="cannot allocate all claims"):
        node_of(cluster, find, "the third")
    device_claim = claim(cluster, find() or {})
    assert device_claim is not None
    assert devices(device_claim) == []
    second = add_trainium(cluster, kubelets, synthesised, 1)
    try:
        place = "a place on the second node"
        assert cluster.until(lambda: (find() or {})["spec"].get("nodeName"), place) == second
    finally:
        kubelets.remove(second)
