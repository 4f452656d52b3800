"""What the namespace lets in, and what its service accounts may do."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from kubernetes.client import ApiException

from charts.names import NAMESPACE, ServiceAccount
from tests.cluster.api import Cluster, Manifest
from tests.cluster.deployment import Manifests

EVERYONES = {
    ("create", "authentication.k8s.io", "selfsubjectreviews"),
    ("create", "authorization.k8s.io", "selfsubjectaccessreviews"),
    ("create", "authorization.k8s.io", "selfsubjectrulesreviews"),
}
"""What Kubernetes lets whoever has logged in do with resources: ask about himself."""
UNSERVED_VERBS = {
    "certificatesigningrequests": ("approve", "sign"),
    "clusterroles": ("bind", "escalate"),
    "roles": ("bind", "escalate"),
    "serviceaccounts": ("impersonate",),
}
"""Verbs that RBAC knows and discovery does not tell."""


def _templates(manifests: Manifests) -> dict[str, Manifest]:
    """The pods of all charts by the name of what makes them."""
    templates = {}
    for manifest in manifests.objects():
        if manifest["kind"] in ("Deployment", "Job"):
            templates[manifest["metadata"]["name"]] = manifest["spec"]["template"]
        elif manifest["kind"] == "Pod":
            templates[manifest["metadata"]["name"]] = manifest
    return templates


def _dry_run(cluster: Cluster, template: Manifest) -> None:
    """Lets admission see a pod, and keeps none of it. Raises ApiException."""
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "probe", "labels": template["metadata"]["labels"]},
        "spec": {"restartPolicy": "Never", **template["spec"]},
    }
    cluster.create(pod, NAMESPACE, dry_run="All")


def test_every_pod_is_let_in(cluster: Cluster, deployment: Manifests) -> None:
    templates = _templates(deployment)
    assert len(templates) == 7
    for template in templates.values():
        _dry_run(cluster, template)


def test_no_pod_is_let_in_as_root(cluster: Cluster, deployment: Manifests) -> None:
    for name, template in _templates(deployment).items():
        forbidden = copy.deepcopy(template)
        forbidden["spec"]["securityContext"].update(runAsUser=0, runAsNonRoot=False)
        with pytest.raises(ApiException) as refusal:
            _dry_run(cluster, forbidden)
        assert refusal.value.status == 403, name
        message = json.loads(refusal.value.body)["message"]
        assert 'violates PodSecurity "restricted:latest"' in message, name
        assert "runAsNonRoot" in message, name


@pytest.fixture(scope="module")
def requests(cluster: Cluster) -> list[dict[str, str]]:
    """Everything that can be asked for: verbs on resources, in the namespace and beyond it."""
    verbs: dict[tuple[str, str, bool], set[str]] = {}
    for group, resource in cluster.served():
        key = group, resource["name"], resource["namespaced"]
        verbs.setdefault(key, set()).update(resource["verbs"])
    return [
        {
            "group": group,
            "resource": resource.partition("/")[0],
            "subresource": resource.partition("/")[2],
            "namespace": namespace,
            "verb": verb,
        }
        for (group, resource, namespaced), served in verbs.items()
        for verb in (*served, *UNSERVED_VERBS.get(resource, ()))
        for namespace in ((NAMESPACE, "kube-system", "") if namespaced else ("",))
    ]


@pytest.mark.parametrize("account", [*ServiceAccount, "default"])
def test_an_account_may_do_what_everyone_may(
    account: str, cluster: Cluster, deployment: Manifests, requests: list[dict[str, str]]
) -> None:
    """Its pods ask the API for nothing, so it has no rights of its own."""
    assert deployment
    assert len(requests) > 1000
    allowed = {
        (request["verb"], request["group"], request["resource"])
        for request in requests
        if _allowed(cluster, account, {"resourceAttributes": request})
    }
    assert allowed == EVERYONES


def _allowed(cluster: Cluster, account: str, request: dict[str, Any]) -> bool:
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{NAMESPACE}")
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {
            "user": f"system:serviceaccount:{NAMESPACE}:{account}",
            "groups": [*groups, "system:authenticated"],
            **request,
        },
    }
    return bool(cluster.create(review)["status"]["allowed"])
