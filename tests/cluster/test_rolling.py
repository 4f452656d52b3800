"""A changed window, or another launch: never more claims than the node has devices for."""

import contextlib
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest
from kubernetes import config
from kubernetes.client import ApiException, AppsV1Api
from ruamel.yaml import YAML

from charts.names import ServiceAccount
from charts.scripts.relaunch import Deployments, relaunch
from tests.cluster.api import NAMESPACE, Cluster, Manifest
from tests.cluster.conftest import Rendered
from tests.cluster.deployment import deployed, devices, node_with_label, pods, uid
from tests.cluster.kubelets import Kubelets

BASE, SPECULATIVE = "qwen-vllm", "qwen-sd-vllm"
SERVICES = (BASE, SPECULATIVE)
NODE = "trainium-0"
POLICY: Final = "may restart a Deployment, and change noth"


class Most(NamedTuple):
    requested: int
    """Claims of pods that are there and not over."""
    allocated: int


class Timeline:
    """What the namespace has of pods and claims, from now on."""

    def __init__(self, cluster: Cluster) -> None:
        self._resources = {kind: cluster.resource(kind) for kind in ("Pod", "ResourceClaim")}
        self._before = {
            kind: resource.get(namespace=NAMESPACE).to_dict()
            for kind, resource in self._resources.items()
        }

    def most(self) -> Most:
        pods, claims = ({uid(o): o for o in listed["items"]} for listed in self._before.values())
        counts = [_count(pods, claims)]
        for _, event in sorted(self._events(), key=lambda dated: dated[0]):
            changed = event["raw_object"]
            present = pods if changed["kind"] == "Pod" else claims
            if event["type"] == "DELETED":
                present.pop(uid(changed), None)
            else:
                present[uid(changed)] = changed
            counts.append(_count(pods, claims))
        return Most(max(c.requested for c in counts), max(c.allocated for c in counts))

    def _events(self) -> Iterator[tuple[int, Any]]:
        """A watch from a revision in the past tells all that happened since, missing nothing."""
        for kind, resource in self._resources.items():
            since = self._before[kind]["metadata"]["resourceVersion"]
            for event in resource.watch(namespace=NAMESPACE, resource_version=since, timeout=1):
                yield int(event["raw_object"]["metadata"]["resourceVersion"]), event


def _count(pods: dict[str, Manifest], claims: dict[str, Manifest]) -> Most:
    live = {key for key, pod in pods.items() if pod["status"]["phase"] in ("Pending", "Running")}
    requested = [
        claim
        for claim in claims.values()
        if any(owner["uid"] in live for owner in claim["metadata"]["ownerReferences"])
    ]
    return Most(len(requested), sum(bool(devices(claim)) for claim in claims.values()))


@contextlib.contextmanager
def _serving(cluster: Cluster, manifests: Path) -> Iterator[None]:
    """Both services are placed and ready."""
    with deployed(cluster, manifests):
        for service in SERVICES:
            _ready(cluster, service)
        yield


def test_a_changed_window_replaces_both_pods_without_a_third_claim(
    cluster: Cluster, kubelets: Kubelets, manifests: Path, rendered: Rendered
) -> None:
    with _serving(cluster, manifests):
        before, timeline = _uids(cluster), Timeline(cluster)
        cluster.apply(rendered({"speculation.num_speculative_tokens": 9}))
        for service in SERVICES:
            until = partial(_another, cluster, service, before[service])
            cluster.until(until, f"another pod of {service}")
            _ready(cluster, service)
        # The baseline's as well: both take a window less than is compiled.
        assert not set(before.values()) & set(_uids(cluster).values())
        assert timeline.most() == Most(requested=2, allocated=2)
        (pod,) = pods(cluster, "app", SPECULATIVE)
    assert '"num_speculative_tokens":9' in " ".join(pod["spec"]["containers"][0]["command"])


RESTART: Final = {"metadata": {"annotations": {"kubectl.kubernetes.io/restartedAt": "2026-11-28"}}}
CONTAINERS: Final = {"containers": [{"name": "vllm", "image": "evil:1"}]}
SECRET: Final = {"volumes": [{"name": "t", "secret": {"secretName": "hugging-face"}}]}
REFUSED_IN_PODS: Final[dict[str, Manifest]] = {
    "an image": {"spec": CONTAINERS},
    "an image with a restart": {**RESTART, "spec": CONTAINERS},
    "another account": {"spec": {"serviceAccountName": "prepare"}},
    "a volume": {"spec": SECRET},
    "a toleration": {"spec": {"tolerations": [{"operator": "Exists"}]}},
    "another annotation": {"metadata": {"annotations": {"a": "b"}}},
    "an annotation taken away": {
        "metadata": {"annotations": {"karpenter.sh/do-not-disrupt": None}}
    },
    "a label": {"metadata": {"labels": {"component": "prepare"}}},
}
REFUSED: Final[dict[str, Manifest]] = {
    "replicas": {"spec": {"replicas": 0}},
    "a pause": {"spec": {"paused": True}},
    "a field taken away": {"spec": {"progressDeadlineSeconds": None}},
    "an annotation": {"metadata": {"annotations": {"a": "b"}}},
    "a label": {"metadata": {"labels": {"a": "b"}}},
    "a finalizer": {"metadata": {"finalizers": ["example.com/a"]}},
}


def test_the_benchmarks_account_may_launch_the_services_again_and_change_nothing_else(
    cluster: Cluster, kubelets: Kubelets, rendered: Rendered, tmp_path: Path
) -> None:
    here = ("--namespace", NAMESPACE)
    user = f"system:serviceaccount:{NAMESPACE}:{ServiceAccount.BENCHMARK}"
    with _serving(cluster, rendered({"benchmark.launches": 3})):
        before, timeline = _uids(cluster), Timeline(cluster)
        deployments = Deployments(*_identity(cluster, ServiceAccount.BENCHMARK, tmp_path))
        assert relaunch(SERVICES, deployments, limit_seconds=60, poll_seconds=0.2) == []
        # Both pods are new, ready, and have the devices of the old ones.
        assert not set(before.values()) & set(_uids(cluster).values())
        assert timeline.most() == Most(requested=2, allocated=2)
        listed = cluster.kubectl("auth", "can-i", "--list", "--as", user, *here)
        rights = [" ".join(line.split()) for line in listed.splitlines() if "deployments" in line]
        assert sorted(rights) == sorted(
            f"deployments.apps [] [{service}] [get patch]" for service in SERVICES
        )
        assert relaunch(["another"], deployments) == [
            "another was not restarted: HTTP Error 403: Forbidden"
        ]
        # Also with a right to all of a Deployment: so it is the policy that refuses.
        resources = ",".join(f"deployments.apps{part}" for part in ("", "/scale", "/status"))
        cluster.kubectl("create", "role", "whole", "--verb=*", f"--resource={resources}", *here)
        subjects = (f"--user={user}", "--user=another")
        cluster.kubectl("create", "rolebinding", "whole", "--role=whole", *subjects, *here)
        try:
            _check_refusals(cluster, *(_impersonated(cluster, u) for u in (user, "another")))
        finally:
            cluster.kubectl("delete", "role/whole", "rolebinding/whole", *here)


def _check_refusals(cluster: Cluster, benchmark: AppsV1Api, another: AppsV1Api) -> None:
    """What the account asks for is refused, and would not be another."""
    whole = cluster.get("Deployment", BASE) or {}
    mine = {"apiVersion": "apps/v1", "metadata": {"name": "mine"}, "spec": whole["spec"]}
    changes = [{"spec": {"template": change}} for change in REFUSED_IN_PODS.values()]
    attempts: list[tuple[str, tuple[Any, ...]]] = [
        *(("patch_namespaced_deployment", (change,)) for change in (*changes, *REFUSED.values())),
        ("patch_namespaced_deployment_scale", ({"spec": {"replicas": 0}},)),
        ("patch_namespaced_deployment_status", ({"status": {"replicas": 9}},)),
        ("delete_namespaced_deployment", ()),
    ]
    restart = {"spec": {"template": RESTART}}
    benchmark.patch_namespaced_deployment(BASE, NAMESPACE, restart, dry_run="All")
    for name, arguments in attempts:
        getattr(another, name)(BASE, NAMESPACE, *arguments, dry_run="All")
        with pytest.raises(ApiException, match=POLICY):
            getattr(benchmark, name)(BASE, NAMESPACE, *arguments, dry_run="All")
    another.create_namespaced_deployment(NAMESPACE, mine, dry_run="All")
    with pytest.raises(ApiException, match=POLICY):
        benchmark.create_namespaced_deployment(NAMESPACE, mine, dry_run="All")


def _impersonated(cluster: Cluster, user: str) -> AppsV1Api:
    client = config.new_client_from_config(str(cluster.plane.kubeconfig))
    client.set_default_header("Impersonate-User", user)
    return AppsV1Api(client)


def _identity(cluster: Cluster, account: str, folder: Path) -> tuple[str, Path]:
    """The API server, and what kubelet mounts for the pods of a service account."""
    (server,) = YAML(typ="safe", pure=True).load(cluster.plane.kubeconfig)["clusters"]
    token = cluster.kubectl("create", "token", account, "--namespace", NAMESPACE)
    authority = Path(server["cluster"]["certificate-authority"]).read_text(encoding="utf-8")
    for name, text in (("namespace", NAMESPACE), ("token", token), ("ca.crt", authority)):
        (folder / name).write_text(text, encoding="utf-8")
    return server["cluster"]["server"], folder


def _another(cluster: Cluster, service: str, replaced: str) -> bool:
    return _uids(cluster).get(service, replaced) != replaced


def _ready(cluster: Cluster, service: str) -> None:
    assert node_with_label(cluster, "app", service) == NODE

    def available() -> bool:
        current = cluster.get("Deployment", service)
        return bool(current and current["status"].get("availableReplicas") == 1)

    cluster.until(available, f"{service} to be available")


def _uids(cluster: Cluster) -> dict[str, str]:
    return {
        service: pod["metadata"]["uid"]
        for service in SERVICES
        for pod in pods(cluster, "app", service)
    }
