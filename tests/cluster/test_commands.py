"""What the API server says to the manifests, and to the commands that a stack puts out."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from charts.names import NAMESPACE
from stacks.cluster import KUBERNETES_VERSION
from tests.cluster.api import Cluster, Manifest
from tests.cluster.deployment import Manifests, deployed, node_with_label, typed
from tests.cluster.kubelets import Kubelets
from tests.synthesis import Synthesised


@pytest.fixture
def by_the_handler(
    cluster: Cluster, kubelets: Kubelets, manifests: Manifests
) -> Iterator[Manifests]:
    """The article's manifests, applied as the CDK's handler applies them."""
    with deployed(cluster, manifests, server_side=False):
        yield manifests


def test_a_second_deploy_changes_nothing(cluster: Cluster, by_the_handler: Manifests) -> None:
    output = cluster.apply(by_the_handler.directory, server_side=False)
    assert [line for line in output if not line.endswith(" unchanged")] == []
    assert len(output) == len(by_the_handler.objects())


def test_another_run_is_another_pod(
    cluster: Cluster, by_the_handler: Manifests, synthesised: Synthesised
) -> None:
    node_with_label(cluster, "app", "qwen-llmperf")
    outputs = synthesised.template("serving")["Outputs"]
    before = _benchmark(cluster)
    for _ in range(2):
        typed(cluster, outputs["Command5Again"]["Value"])
        node_with_label(cluster, "app", "qwen-llmperf")
        after = _benchmark(cluster)
        assert after["metadata"]["uid"] != before["metadata"]["uid"]
        assert after["spec"]["containers"] == before["spec"]["containers"]
        before = after


def test_quality_is_started(
    cluster: Cluster, by_the_handler: Manifests, synthesised: Synthesised
) -> None:
    assert not cluster.kubectl(
        *("--namespace", NAMESPACE, "get", "pods", "--selector=app=qwen-lmeval", "--output=name")
    )
    typed(cluster, synthesised.template("serving")["Outputs"]["Command6Quality"]["Value"])
    assert node_with_label(cluster, "app", "qwen-lmeval").startswith("system-")


def _benchmark(cluster: Cluster) -> Manifest:
    pod = cluster.get("Pod", "qwen-llmperf")
    assert pod is not None
    return pod


def test_is_the_clusters_own_version(cluster: Cluster) -> None:
    version = json.loads(cluster.kubectl("version", "--output", "json"))
    for side in ("clientVersion", "serverVersion"):
        assert version[side]["gitVersion"].startswith(f"v{KUBERNETES_VERSION}."), side


def test_every_object_is_admitted(cluster: Cluster, deployment: Manifests) -> None:
    got = cluster.kubectl("get", "--filename", str(deployment.directory), "--output", "json")
    assert len(json.loads(got)["items"]) == len(deployment.objects()) > 20
