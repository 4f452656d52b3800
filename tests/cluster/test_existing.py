"""An experiment in a cluster that others use, one of them with another experiment."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.cluster.api import SECONDS, Cluster, Manifest
from tests.cluster.conftest import MoreNodes, Rendered
from tests.cluster.deployment import deployed, node_with_label, objects, pods, refusal
from tests.matrix import IN_A_CLUSTER, MATRIX
from tests.synthesis import Of

THEIRS: Final[list[Manifest]] = [
    {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}},
    {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "qwen-vllm", "namespace": "team"},
        "spec": {
            "replicas": 0,
            "selector": {"matchLabels": {"app": "qwen-vllm"}},
            "template": {
                "metadata": {"labels": {"app": "qwen-vllm"}},
                "spec": {"containers": [{"name": "web", "image": "web:1"}]},
            },
        },
    },
]
"""Under a name that the experiment uses in its own namespace."""
GUEST: Final = "speculative-decoding-guest"
SERVICES: Final = ("qwen-vllm", "qwen-sd-vllm")
KINDS: Final = "namespaces,persistentvolumes,deviceclasses,clusterroles,deployments,configmaps"


@pytest.fixture
def theirs(cluster: Cluster, tmp_path: Path) -> Iterator[None]:
    listed = {"apiVersion": "v1", "kind": "List", "items": THEIRS}
    (tmp_path / "theirs.json").write_text(json.dumps(listed))
    cluster.kubectl("apply", "--filename", str(tmp_path))
    yield
    cluster.kubectl("delete", "namespace", "team", f"--timeout={SECONDS:.0f}s")


def present(cluster: Cluster) -> set[str]:
    """All of these kinds, with their versions, outside the guest's own namespace."""
    columns = "custom-columns=N:.metadata.namespace,K:.kind,M:.metadata.name,V:.metadata.generation"
    listed = cluster.kubectl("get", KINDS, "-A", "--no-headers", "--output", columns)
    return {" ".join(row.split()) for row in listed.splitlines() if not row.startswith(GUEST)}


def test_it_comes_and_goes_beside_what_is_there(
    cluster: Cluster,
    theirs: None,
    deployment: Path,
    of_matrix: Of,
    rendered: Rendered,
    more_nodes: MoreNodes,
) -> None:
    """The article's experiment runs there, on nodes of its own."""
    guest = of_matrix(IN_A_CLUSTER)
    manifests = rendered(MATRIX[IN_A_CLUSTER])
    cluster_scoped = {
        (o["kind"], o["metadata"]["name"])
        for o in objects(manifests)
        if "namespace" not in o["metadata"]
    }
    assert cluster_scoped == {("Namespace", GUEST), ("PersistentVolume", "guest-models")}

    def kept_away() -> bool:
        waiting = [pods(cluster, "app", service, GUEST) for service in SERVICES]
        waiting += [pods(cluster, "step", "compile", GUEST)]
        reasons = [refusal(pod) for group in waiting for pod in group]
        return len(reasons) == 4 and all("node affinity" in reason for reason in reasons)

    for service in SERVICES:
        assert node_with_label(cluster, "app", service) == "trainium-0"
    before = present(cluster)
    with deployed(cluster, manifests, GUEST, server_side=False):
        added = {row.split()[2] for row in present(cluster) - before}
        assert added == {GUEST, "guest-models"}
        cluster.until(kept_away, "no place on the article's nodes")
        with more_nodes(of=guest) as (node,):
            for service in SERVICES:
                assert node_with_label(cluster, "app", service, GUEST) == node
    cluster.kubectl("delete", "--filename", str(manifests), "--ignore-not-found", "--wait=false")
    cluster.until(lambda: present(cluster) == before, "an end without a trace")
