"""An experiment in a cluster that others use: it is applied beside them, and leaves them alone."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from charts.names import NAMESPACE
from experiment import Experiment
from tests.cluster.api import SECONDS, Cluster, Manifest
from tests.cluster.deployment import deployed, node_with_label, objects
from tests.cluster.kubelets import Kubelets
from tests.matrix import IN_A_CLUSTER, MATRIX

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
KINDS: Final = "namespaces,persistentvolumes,deviceclasses,clusterroles,deployments,configmaps"


@pytest.fixture
def theirs(cluster: Cluster, tmp_path: Path) -> Iterator[None]:
    listed = {"apiVersion": "v1", "kind": "List", "items": THEIRS}
    (tmp_path / "theirs.json").write_text(json.dumps(listed))
    # A volume that other tests have claimed would not be claimed again.
    for kind, name in (("namespace", NAMESPACE), ("persistentvolume", "--all")):
        cluster.kubectl("delete", kind, name, "--ignore-not-found", f"--timeout={SECONDS:.0f}s")
    cluster.kubectl("apply", "--filename", str(tmp_path))
    yield
    cluster.kubectl("delete", "namespace", "team", f"--timeout={SECONDS:.0f}s")


def present(cluster: Cluster) -> set[str]:
    """All of these kinds, with their versions, outside the experiment's own namespace."""
    columns = "custom-columns=N:.metadata.namespace,K:.kind,M:.metadata.name,V:.metadata.generation"
    listed = cluster.kubectl("get", KINDS, "-A", "--no-headers", "--output", columns)
    return {" ".join(row.split()) for row in listed.splitlines() if not row.startswith(NAMESPACE)}


def test_it_comes_and_goes_beside_what_is_there(
    cluster: Cluster,
    kubelets: Kubelets,
    theirs: None,
    variation: Callable[[dict[str, Any]], Experiment],
    rendered: Callable[[Experiment], Path],
) -> None:
    manifests = rendered(variation(MATRIX[IN_A_CLUSTER]))
    cluster_scoped = {
        (o["kind"], o["metadata"]["name"])
        for o in objects(manifests)
        if "namespace" not in o["metadata"]
    }
    assert cluster_scoped == {("Namespace", NAMESPACE), ("PersistentVolume", "guest-models")}
    before = present(cluster)
    with deployed(cluster, manifests, server_side=False):
        assert node_with_label(cluster, "app", "qwen-vllm") == "trainium-0"
        added = {row.split()[2] for row in present(cluster) - before}
        assert added == {NAMESPACE, "guest-models"}
    cluster.kubectl("delete", "--filename", str(manifests), "--ignore-not-found", "--wait=false")
    cluster.until(lambda: present(cluster) == before, "an end without a trace")
