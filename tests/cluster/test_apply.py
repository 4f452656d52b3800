"""What the API server says to the manifests."""

from __future__ import annotations

import json

from stacks.cluster import KUBERNETES_VERSION
from tests.cluster.api import Cluster
from tests.cluster.deployment import Manifests


def test_is_the_clusters_own_version(cluster: Cluster) -> None:
    version = json.loads(cluster.kubectl("version", "--output", "json"))
    for side in ("clientVersion", "serverVersion"):
        assert version[side]["gitVersion"].startswith(f"v{KUBERNETES_VERSION}."), side


def test_every_object_is_admitted(cluster: Cluster, deployment: Manifests) -> None:
    got = cluster.kubectl("get", "--filename", str(deployment.directory), "--output", "json")
    assert len(json.loads(got)["items"]) == len(deployment.objects()) > 20
