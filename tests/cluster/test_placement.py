"""Where the scheduler puts the pods, of services of any shape, and which devices it gives them."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from experiment import Experiment
from experiment.hardware import TRN2_3XLARGE
from experiment.variants import variants
from tests.charts.test_vllm import EAGLE3
from tests.cluster.api import NAMESPACE, Cluster, Manifest
from tests.cluster.conftest import add_trainium
from tests.cluster.deployment import (
    deployed,
    group,
    node_with_label,
    objects,
    pods,
    refusal,
    service_devices,
)
from tests.cluster.kubelets import Kubelets
from tests.experiment.files import ON_TRAINIUM, of_file
from tests.matrix import MATRIX, WHOLE_NODES
from tests.synthesis import Synthesised

SERVICES = ("qwen-vllm", "qwen-sd-vllm")
Vary = Callable[..., Experiment]
Render = Callable[[Experiment], Path]


def test_both_services_fit_one_node_each_on_a_whole_group_of_devices(
    cluster: Cluster, deployment: Path
) -> None:
    assert [node_with_label(cluster, "app", service) for service in SERVICES] == ["trainium-0"] * 2
    allocations = [service_devices(cluster, service) for service in SERVICES]
    assert [len(of_one) for of_one in allocations] == [8, 8]
    assert len({device for of_one in allocations for device in of_one}) == 16
    groups = [{group(cluster, device) for device in of_one} for of_one in allocations]
    assert [len(of_one) for of_one in groups] == [1, 1]
    assert groups[0] != groups[1]


def test_clients_and_download_go_to_cpu_nodes(cluster: Cluster, deployment: Path) -> None:
    for label in (("app", "qwen-llmperf"), ("step", "download")):
        assert node_with_label(cluster, *label).startswith("system-")


def test_each_graph_is_compiled_on_a_cpu_node_of_its_own(
    cluster: Cluster, deployment: Path
) -> None:

    def placed() -> list[str] | None:
        nodes = [pod["spec"].get("nodeName") for pod in pods(cluster, "step", "compile")]
        return sorted(nodes) if len(nodes) == 2 and all(nodes) else None

    assert cluster.until(placed, "places for both compilers") == ["compile-0", "compile-1"]


@pytest.fixture
def on_trainium(
    cluster: Cluster, deployment: Path, variation: Vary, rendered: Render
) -> Iterator[list[str]]:
    """The same Jobs as a file has them that compiles on Trainium; their names."""
    of_kind = [o for o in objects(rendered(variation(ON_TRAINIUM))) if o["kind"] == "Job"]
    jobs = [job for job in of_kind if "compile-" in job["metadata"]["name"]]
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
        ours = [p for p in compilers if p["metadata"]["labels"]["job-name"] in names]
        return [p for p in ours if p["status"]["phase"] in ("Pending", "Running")]

    (first,) = cluster.until(placed, "a place for a compiler")
    assert first["spec"]["nodeName"] == "trainium-0"
    (reason,) = cluster.until(waiting, "the word about the second compiler")
    # Where there were room for a second, its anti-affinity would keep it away.
    assert "Insufficient cpu" in reason
    kubelets.finish(names)
    cluster.until(lambda: not compiling(), "the end of both")


def test_both_compile_on_one_node_each_on_a_claim_of_its_own(
    cluster: Cluster,
    kubelets: Kubelets,
    synthesised: Synthesised,
    variation: Vary,
    rendered: Render,
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
    variation: Vary,
    rendered: Render,
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


def test_each_service_gets_a_small_node_with_one_device_that_is_of_no_group(
    cluster: Cluster,
    kubelets: Kubelets,
    synthesised: Synthesised,
    variation: Vary,
    rendered: Render,
) -> None:
    # Under the names and in the region of the others: a volume cannot change its bucket.
    article = synthesised.experiment
    experiment = variation(
        {
            **of_file("first"),
            # Its file of questions is not beside this one.
            "benchmark.test_cases": [{"name": "questions", "set": "mt-bench"}],
            "name": article.name,
            "aws.region": article.aws.region,
            "aws.availability_zones": [*article.aws.availability_zones],
            "capacity.availability_zone": article.capacity.availability_zone,
        }
    )
    services = [variant.service for variant in variants(experiment)]
    assert len(services) == 3
    small = [add_trainium(cluster, kubelets, synthesised, n, TRN2_3XLARGE) for n in (3, 4, 5)]
    try:
        with deployed(cluster, rendered(experiment)):
            assert sorted(node_with_label(cluster, "app", s) for s in services) == small
            for service in services:
                ((pool, _),) = service_devices(cluster, service)
                assert pool == node_with_label(cluster, "app", service)
    finally:
        for node in small:
            kubelets.remove(node)
