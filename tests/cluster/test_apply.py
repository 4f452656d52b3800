"""What the API server says to the manifests."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from charts.names import NAMESPACE
from stacks.cluster import KUBERNETES_VERSION
from tests.cluster.api import SECONDS, Cluster, Manifest, Refused
from tests.cluster.deployment import Manifests

QUIET_SECONDS = 2.0


def test_is_the_clusters_own_version(cluster: Cluster) -> None:
    version = json.loads(cluster.kubectl("version", "--output", "json"))
    for side in ("clientVersion", "serverVersion"):
        assert version[side]["gitVersion"].startswith(f"v{KUBERNETES_VERSION}."), side


def test_every_object_is_admitted(cluster: Cluster, deployment: Manifests) -> None:
    assert len(_revisions(cluster, deployment)) == len(deployment.objects()) > 20


def test_a_second_time_changes_nothing(cluster: Cluster, deployment: Manifests) -> None:
    before = _settled(cluster, deployment)
    applied = cluster.apply(deployment.directory)
    assert len(applied) == len(before)
    assert _revisions(cluster, deployment) == before


def test_no_object_needs_a_custom_resource(cluster: Cluster, deployment: Manifests) -> None:
    """So that none can be applied before its definition: only add-ons bring such."""
    assert cluster.kubectl("get", "customresourcedefinitions", "--output", "name") == ""
    assert deployment.objects()


@pytest.mark.parametrize(
    ("kind", "change", "message"),
    [
        ("Deployment", {"spec": {"progressDeadlineSecond": 1}}, "progressDeadlineSecond"),
        ("NetworkPolicy", {"spec": {"policyTypes": ["Inward"]}}, "Inward"),
        ("ResourceClaimTemplate", {"spec": {"spec": {"devices": {"request": []}}}}, "request"),
    ],
)
def test_what_is_misspelt_is_refused(
    kind: str,
    change: dict[str, Any],
    message: str,
    cluster: Cluster,
    deployment: Manifests,
    tmp_path: Path,
) -> None:
    name = next(o["metadata"]["name"] for o in deployment.objects() if o["kind"] == kind)
    broken = deployment.changed(kind, name, lambda o: _merge(o, change), tmp_path / "broken")
    with pytest.raises(Refused, match=message):
        cluster.apply(broken.directory)


def _revisions(cluster: Cluster, manifests: Manifests) -> dict[tuple[str, str], str]:
    """Kind and name to the revision of each object that the manifests bring."""
    got = cluster.kubectl("get", "--filename", str(manifests.directory), "--output", "json")
    return {
        (item["kind"], item["metadata"]["name"]): item["metadata"]["resourceVersion"]
        for item in json.loads(got)["items"]
    }


def _settled(cluster: Cluster, manifests: Manifests) -> dict[tuple[str, str], str]:
    """The revisions once controllers, scheduler and kubelets have done what they do."""
    for resource in ("deployment/qwen-vllm", "deployment/qwen-sd-vllm"):
        condition = ("--for=condition=Available", f"--timeout={SECONDS:.0f}s")
        cluster.kubectl("--namespace", NAMESPACE, "wait", resource, *condition)
    before: dict[tuple[str, str], str] = {}

    def quiet() -> bool:
        nonlocal before
        earlier, before = before, _revisions(cluster, manifests)
        if before != earlier:
            time.sleep(QUIET_SECONDS)
        return before == earlier

    cluster.until(quiet, "nothing more to change")
    return before


def _merge(object_: Manifest, change: dict[str, Any]) -> None:
    for key, value in change.items():
        if isinstance(value, dict):
            _merge(object_[key], value)
        else:
            object_[key] = value
