"""What holds for every manifest: its schema, Pod Security, and what pods may not do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import kubernetes_validate
import pytest

from charts.names import DEVICES, NAMESPACE
from experiment import Experiment
from stacks.cluster import KUBERNETES_VERSION
from tests.matrix import MATRIX
from tests.synthesis import Synthesised, containers, pods, render

VOLUMES = {"configMap", "emptyDir", "persistentVolumeClaim", "secret"}
CLUSTER_SCOPED = {"Namespace", "PersistentVolume"}


def test_follows_the_schemas_of_the_clusters_version(each: Synthesised) -> None:
    for manifests in each.manifests.values():
        for manifest in manifests:
            kubernetes_validate.validate(manifest, KUBERNETES_VERSION, strict=True)


def test_stands_in_the_experiments_namespace(each: Synthesised) -> None:
    for manifests in each.manifests.values():
        for manifest in manifests:
            expected = None if manifest["kind"] in CLUSTER_SCOPED else NAMESPACE
            assert manifest["metadata"].get("namespace") == expected


@pytest.mark.parametrize("experiment", MATRIX)
def test_pods_keep_to_pod_security_restricted(
    experiment: str, variation: Callable[..., Experiment]
) -> None:
    for name, pod in pods(render(variation(MATRIX[experiment]))):
        assert pod["securityContext"]["runAsNonRoot"] is True, name
        # Above the ids of a node's own users.
        assert pod["securityContext"]["runAsUser"] > 10_000, name
        assert pod["securityContext"]["runAsGroup"] > 10_000, name
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}, name
        assert not {"hostNetwork", "hostPID", "hostIPC"} & set(pod), name
        for volume in pod["volumes"]:
            assert set(volume) - {"name"} <= VOLUMES, name
        for container in containers(pod):
            security = container["securityContext"]
            assert security["allowPrivilegeEscalation"] is False, name
            assert security["capabilities"] == {"drop": ["ALL"]}, name


def test_pods_have_no_token_for_the_api(each: Synthesised) -> None:
    for name, pod in each.pods():
        assert pod["automountServiceAccountToken"] is False, name
        assert pod["enableServiceLinks"] is False, name


def test_containers_say_what_they_need(each: Synthesised) -> None:
    for name, pod in each.pods():
        for container in containers(pod):
            resources = container["resources"]
            assert {"cpu", "memory", "ephemeral-storage"} <= set(resources["requests"]), name
            assert {"memory", "ephemeral-storage"} <= set(resources["limits"]), name
            assert "cpu" not in resources["limits"], name


def test_pods_may_fill_the_volumes_that_they_have(each: Synthesised) -> None:
    """Kubelet evicts a pod whose volumes and containers together exceed its limit, which is the
    sum of those of the containers that stay, or that of a greater one before them."""
    for name, pod in each.pods():
        scratch = [volume["emptyDir"] for volume in pod["volumes"] if "emptyDir" in volume]
        volumes = sum(
            gibibytes(volume["sizeLimit"]) for volume in scratch if "medium" not in volume
        )
        assert volumes < limit(pod), name


def limit(pod: dict[str, Any]) -> int:
    def of(container: dict[str, Any]) -> int:
        return gibibytes(container["resources"]["limits"]["ephemeral-storage"])

    before = pod.get("initContainers", [])
    stay = [*pod["containers"], *(c for c in before if c.get("restartPolicy") == "Always")]
    return max(sum(map(of, stay)), *map(of, containers(pod)))


def gibibytes(quantity: str) -> int:
    assert quantity.endswith("Gi")
    return int(quantity.removesuffix("Gi"))


def test_a_pod_with_a_claim_opens_its_devices_before_anything_else(each: Synthesised) -> None:
    """As the user that serves: what the pod says of its user holds for all of its containers."""
    claiming = [pod for _, pod in each.pods() if pod.get("resourceClaims")]
    assert claiming
    for pod in claiming:
        first, *rest = containers(pod)
        assert first["name"] == DEVICES
        assert first["args"] == [str(each.experiment.serving.devices), "/dev"]
        serves = [c for c in rest if c["resources"].get("claims") == first["resources"]["claims"]]
        assert [c["image"] for c in serves] == [first["image"]]
        assert not any("runAsUser" in c["securityContext"] for c in (first, *serves))


def test_what_pods_refer_to_is_there(each: Synthesised) -> None:
    config_maps = {o["metadata"]["name"] for o in each.objects("ConfigMap")}
    claims = {o["metadata"]["name"] for o in each.objects("PersistentVolumeClaim")}
    accounts = {o["metadata"]["name"] for o in each.objects("ServiceAccount")}
    templates = {o["metadata"]["name"] for o in each.objects("ResourceClaimTemplate")}
    for name, pod in each.pods():
        assert pod["serviceAccountName"] in accounts, name
        for claim in pod.get("resourceClaims", []):
            assert claim["resourceClaimTemplateName"] in templates
        for volume in pod["volumes"]:
            if "configMap" in volume:
                assert volume["configMap"]["name"] in config_maps, name
            if "persistentVolumeClaim" in volume:
                assert volume["persistentVolumeClaim"]["claimName"] in claims, name
        for container in containers(pod):
            for source in container.get("envFrom", []):
                assert source["configMapRef"]["name"] in config_maps, name


def test_scripts_that_pods_run_are_there(each: Synthesised) -> None:
    scripts = each.object("ConfigMap", "scripts")["data"]
    for name, pod in each.pods():
        for container in containers(pod):
            for word in " ".join(container.get("command", [])).split():
                if word.startswith("/scripts/"):
                    assert word.removeprefix("/scripts/") in scripts, name
