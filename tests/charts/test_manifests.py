"""What holds for every manifest: its schema, Pod Security, and what pods may not do."""

from typing import Any

import kubernetes_validate
import pytest
from syrupy.assertion import SnapshotAssertion

from charts.names import VLLM_PORT, Component, namespace
from stacks.cluster import KUBERNETES_VERSION
from tests.matrix import EAGLE3, FIRST_START, MATRIX, MEDUSA, SWEEP, VANILLA
from tests.network_policy import allowed
from tests.snapshots import TemplateSnapshot
from tests.synthesis import Synthesised, Vary, containers, pods, render

VOLUMES = {"configMap", "emptyDir", "persistentVolumeClaim", "secret"}
CLUSTER_SCOPED = {"Namespace", "PersistentVolume"}


def test_follows_the_schemas_of_the_clusters_version_in_its_namespace(each: Synthesised) -> None:
    for manifests in each.manifests.values():
        for manifest in manifests:
            kubernetes_validate.validate(manifest, KUBERNETES_VERSION, strict=True)
            expected = None if manifest["kind"] in CLUSTER_SCOPED else namespace(each.experiment)
            assert manifest["metadata"].get("namespace") == expected


@pytest.mark.parametrize("experiment", ["article", SWEEP, EAGLE3, FIRST_START, VANILLA, MEDUSA])
def test_pods_keep_to_pod_security_restricted(experiment: str, variation: Vary) -> None:
    """Of each shape that a pod has: prepared drafts, first starts, indexes and jobs, too."""
    for name, pod in pods(render(variation(MATRIX[experiment]))):
        assert pod["nodeSelector"]["kubernetes.io/arch"] == "amd64", name
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


def test_pods_have_neither_a_token_for_the_api_nor_a_key(each: Synthesised) -> None:
    """The scripts speak of the variable; no pod is given it."""
    for name, pod in each.pods():
        assert pod["automountServiceAccountToken"] is False, name
        for container in containers(pod):
            names = {variable["name"] for variable in container.get("env", [])}
            assert not names & {"VLLM_API_KEY", "OPENAI_API_KEY", "HF_TOKEN"}
            assert "--api-key" not in container.get("command", [])
    # Nor has an account any rights there.
    kinds = ("Secret", "Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding")
    assert [o for kind in kinds for o in each.objects(kind)] == []


def test_pods_reach_what_they_need_and_nothing_else(
    each: Synthesised, snapshot: SnapshotAssertion
) -> None:
    """Names, credentials and HTTPS, and vLLM its clients; a pod of no component the least."""
    policies = [*each.objects("NetworkPolicy")]
    made_by = [o for kind in ("Pod", "Job", "Deployment") for o in each.objects(kind)]
    templates = [o if o["kind"] == "Pod" else o["spec"]["template"] for o in made_by]
    reached: dict[str, list[str]] = {}
    for labels in ({}, *(template["metadata"]["labels"] for template in templates)):
        rules = allowed(policies, labels)
        assert reached.setdefault(labels.get("component", "none"), rules) == rules
    assert reached == snapshot(extension_class=TemplateSnapshot)
    # The VPC CNI lets a pod reach a ClusterIP only if the policy's peer selects what the Service
    # names in its own selector, and only at the port that the policy names
    # (amazon-network-policy-controller-k8s v1.1.7, pkg/resolvers/endpoints.go).
    for service in each.objects("Service"):
        assert service["spec"]["selector"]["component"] == Component.VLLM
        (port,) = service["spec"]["ports"]
        assert (port["port"], port["targetPort"]) == (VLLM_PORT, VLLM_PORT)


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


def test_what_pods_refer_to_is_there(each: Synthesised) -> None:
    kinds = ("ConfigMap", "PersistentVolumeClaim", "ServiceAccount", "ResourceClaimTemplate")
    names = {kind: {o["metadata"]["name"] for o in each.objects(kind)} for kind in kinds}
    scripts = each.object("ConfigMap", "scripts")["data"]
    for name, pod in each.pods():
        assert pod["serviceAccountName"] in names["ServiceAccount"], name
        for claim in pod.get("resourceClaims", []):
            assert claim["resourceClaimTemplateName"] in names["ResourceClaimTemplate"]
        for volume in pod["volumes"]:
            if "configMap" in volume:
                assert volume["configMap"]["name"] in names["ConfigMap"], name
            if claimed := volume.get("persistentVolumeClaim"):
                assert claimed["claimName"] in names["PersistentVolumeClaim"], name
        for container in containers(pod):
            for source in container.get("envFrom", []):
                assert source["configMapRef"]["name"] in names["ConfigMap"], name
            for word in " ".join(container.get("command", [])).split():
                if word.startswith("/scripts/"):
                    assert word.removeprefix("/scripts/") in scripts, name
