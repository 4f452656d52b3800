"""Where the scheduler puts the pods, of services of any shape, and which devices it gives them."""

from pathlib import Path

from experiment.hardware import TRN2_3XLARGE, TRN2_48XLARGE
from tests.charts.test_vllm import EAGLE3
from tests.cluster.api import NAMESPACE, Cluster, Manifest
from tests.cluster.conftest import MoreNodes, Rendered
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


def test_one_graph_is_compiled_beside_the_services_at_a_time(
    cluster: Cluster, kubelets: Kubelets, deployment: Path, rendered: Rendered
) -> None:
    """The same Jobs as a file has them that compiles on Trainium."""
    of_kind = [o for o in objects(rendered(ON_TRAINIUM)) if o["kind"] == "Job"]
    jobs = [cluster.create(o, NAMESPACE) for o in of_kind if "compile-" in o["metadata"]["name"]]
    names = [job["metadata"]["name"] for job in jobs]

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


def test_services_of_any_shape_get_devices_of_their_own(
    cluster: Cluster, synthesised: Synthesised, rendered: Rendered, more_nodes: MoreNodes
) -> None:
    article = synthesised.experiment
    # Under the name and in the region of the others: a claim cannot change its volume, nor that
    # its bucket.
    same = {
        "name": article.name,
        "aws.region": article.aws.region,
        "aws.availability_zones": [*article.aws.availability_zones],
        "capacity.availability_zone": article.capacity.availability_zone,
    }
    # Its file of questions is not beside this one.
    small = of_file("first") | {"benchmark.test_cases": [{"name": "questions", "set": "mt-bench"}]}
    for changes, instance, more, devices in (
        # The scheduler counts the sidecar in, which keeps what was compiled.
        (EAGLE3, TRN2_48XLARGE, 0, 8),
        (MATRIX[WHOLE_NODES], TRN2_48XLARGE, 1, 16),
        # A device that is of no group.
        (small, TRN2_3XLARGE, 3, 1),
    ):
        manifests = rendered(changes | same)
        services = [o["metadata"]["name"] for o in objects(manifests) if o["kind"] == "Deployment"]
        with more_nodes(more, instance) as names, deployed(cluster, manifests):
            allocated = [d for service in services for d in service_devices(cluster, service)]
            assert len(set(allocated)) == len(allocated) == devices * len(services)
            for service in services:
                node = node_with_label(cluster, "app", service)
                assert {pool for pool, _ in service_devices(cluster, service)} == {node}
            nodes = {pool for pool, _ in allocated}
            assert nodes == ({*names} if devices == 1 else {"trainium-0", *names})
