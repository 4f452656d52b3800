"""A changed window, or another launch: never more claims than the node has devices for."""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest
from kubernetes import config
from kubernetes.client import ApiException, AppsV1Api
from ruamel.yaml import YAML

from charts.names import ServiceAccount
from charts.scripts.relaunch import Deployments, relaunch
from experiment import Experiment
from tests.cluster.api import NAMESPACE, Cluster, Manifest
from tests.cluster.deployment import (
    deployed,
    devices,
    node_with_label,
    pods,
    uid,
)
from tests.cluster.kubelets import Kubelets

BASE, SPECULATIVE = "qwen-vllm", "qwen-sd-vllm"
SERVICES = (BASE, SPECULATIVE)
NODE = "trainium-0"


class Most(NamedTuple):
    requested: int
    """Claims of pods that are there and not over."""
    allocated: int


class Timeline:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._before = {kind: cluster.snapshot(kind) for kind in ("Pod", "ResourceClaim")}

    def most(self) -> Most:
        present = {kind: {uid(o): o for o in items} for kind, (_, items) in self._before.items()}
        counts = [_count(**present)]
        for _, kind, change, object_ in sorted(self._events(), key=lambda event: event[0]):
            if change == "DELETED":
                present[kind].pop(uid(object_), None)
            else:
                present[kind][uid(object_)] = object_
            counts.append(_count(**present))
        return Most(max(c.requested for c in counts), max(c.allocated for c in counts))

    def _events(self) -> Iterator[tuple[int, str, str, Manifest]]:
        for kind, (since, _) in self._before.items():
            for revision, change, object_ in self._cluster.history(kind, since):
                yield revision, kind, change, object_


def _count(Pod: dict[str, Manifest], ResourceClaim: dict[str, Manifest]) -> Most:  # noqa: N803 (kinds)
    live = {key for key, pod in Pod.items() if pod["status"]["phase"] in ("Pending", "Running")}
    claims = ResourceClaim.values()
    requested = [
        c for c in claims if any(o["uid"] in live for o in c["metadata"]["ownerReferences"])
    ]
    return Most(len(requested), sum(bool(devices(c)) for c in claims))


@pytest.fixture
def serving(cluster: Cluster, kubelets: Kubelets, manifests: Path) -> Iterator[Path]:
    """The article's manifests, with both services placed and ready."""
    with deployed(cluster, manifests):
        for service in SERVICES:
            _ready(cluster, service)
        yield manifests


def test_a_changed_window_replaces_both_pods_without_a_third_claim(
    cluster: Cluster,
    serving: Path,
    variation: Callable[..., Experiment],
    rendered: Callable[[Experiment], Path],
) -> None:
    before, timeline = _uids(cluster), Timeline(cluster)
    changed = rendered(variation({"speculation.num_speculative_tokens": 9}))
    cluster.apply(changed)
    for service in SERVICES:
        until = partial(_another, cluster, service, before[service])
        cluster.until(until, f"another pod of {service}")
        _ready(cluster, service)
    # The baseline's as well: both take a window less than is compiled.
    assert not set(before.values()) & set(_uids(cluster).values())
    assert timeline.most() == Most(requested=2, allocated=2)
    (pod,) = pods(cluster, "app", SPECULATIVE)
    assert '"num_speculative_tokens":9' in " ".join(pod["spec"]["containers"][0]["command"])


def test_the_benchmarks_account_may_launch_the_services_again_and_no_more(
    cluster: Cluster,
    kubelets: Kubelets,
    variation: Callable[..., Experiment],
    rendered: Callable[[Experiment], Path],
    tmp_path: Path,
) -> None:
    with deployed(cluster, rendered(variation({"benchmark.launches": 3}))):
        for service in SERVICES:
            _ready(cluster, service)
        before, timeline = _uids(cluster), Timeline(cluster)
        deployments = Deployments(*_identity(cluster, ServiceAccount.BENCHMARK, tmp_path))
        assert relaunch(SERVICES, deployments, limit_seconds=60, poll_seconds=0.2) == []
        # Both pods are new, ready, and have the devices of the old ones.
        assert not set(before.values()) & set(_uids(cluster).values())
        assert timeline.most() == Most(requested=2, allocated=2)
        user = f"system:serviceaccount:{NAMESPACE}:{ServiceAccount.BENCHMARK}"
        listed = cluster.kubectl("auth", "can-i", "--list", "--as", user, "--namespace", NAMESPACE)
        rights = [" ".join(line.split()) for line in listed.splitlines() if "deployments" in line]
        assert sorted(rights) == sorted(
            f"deployments.apps [] [{service}] [get patch]" for service in SERVICES
        )
        assert relaunch(["another"], deployments) == [
            "another was not restarted: HTTP Error 403: Forbidden"
        ]


WHOLE: Final = "deployments.apps,deployments.apps/scale,deployments.apps/status"
RESTART: Final = {"kubectl.kubernetes.io/restartedAt": "2026-11-28T02:00:00Z"}
CREATED: Final[Manifest] = {"apiVersion": "apps/v1", "metadata": {"name": "mine"}}
VLLM: Final[Manifest] = {"name": "vllm", "image": "evil:1"}


def template(**fields: Any) -> Manifest:
    return {"spec": {"template": fields}}


REFUSED: Final[dict[str, Manifest]] = {
    "an image": template(spec={"containers": [VLLM]}),
    "an image with a restart": template(
        metadata={"annotations": RESTART}, spec={"containers": [VLLM]}
    ),
    "another account": template(spec={"serviceAccountName": "prepare"}),
    "a volume": template(
        spec={"volumes": [{"name": "t", "secret": {"secretName": "hugging-face"}}]}
    ),
    "a toleration": template(spec={"tolerations": [{"operator": "Exists"}]}),
    "another annotation of the pods": template(metadata={"annotations": {"a": "b"}}),
    "an annotation taken away": template(
        metadata={"annotations": {"karpenter.sh/do-not-disrupt": None}}
    ),
    "a label of the pods": template(metadata={"labels": {"component": "quality"}}),
    "replicas": {"spec": {"replicas": 0}},
    "a pause": {"spec": {"paused": True}},
    "a field taken away": {"spec": {"progressDeadlineSeconds": None}},
    "an annotation": {"metadata": {"annotations": {"a": "b"}}},
    "a label": {"metadata": {"labels": {"a": "b"}}},
    "a finalizer": {"metadata": {"finalizers": ["example.com/a"]}},
}


def test_the_benchmarks_account_may_change_nothing_but_the_restart(
    cluster: Cluster,
    kubelets: Kubelets,
    variation: Callable[..., Experiment],
    rendered: Callable[[Experiment], Path],
) -> None:
    """Also with a right to all of a Deployment: so it is the policy that refuses."""
    here = ("--namespace", NAMESPACE)
    users = [f"system:serviceaccount:{NAMESPACE}:{ServiceAccount.BENCHMARK}", "another"]
    subjects = [f"--user={user}" for user in users]
    with deployed(cluster, rendered(variation({"benchmark.launches": 3}))):
        cluster.kubectl("create", "role", "whole", "--verb=*", f"--resource={WHOLE}", *here)
        cluster.kubectl("create", "rolebinding", "whole", "--role=whole", *subjects, *here)
        try:
            benchmark, another = (_impersonated(cluster, user) for user in users)
            body = cluster.get("Deployment", BASE) or {}
            tries: dict[str, Callable[[AppsV1Api], object]] = {
                **{name: partial(_patch, change) for name, change in REFUSED.items()},
                "scale": lambda apps: apps.patch_namespaced_deployment_scale(
                    BASE, NAMESPACE, {"spec": {"replicas": 0}}, dry_run="All"
                ),
                "status": lambda apps: apps.patch_namespaced_deployment_status(
                    BASE, NAMESPACE, {"status": {"replicas": 9}}, dry_run="All"
                ),
                "delete": lambda apps: apps.delete_namespaced_deployment(
                    BASE, NAMESPACE, dry_run="All"
                ),
                "create": lambda apps: apps.create_namespaced_deployment(
                    NAMESPACE, {**CREATED, "spec": body["spec"]}, dry_run="All"
                ),
            }
            _patch(template(metadata={"annotations": RESTART}), benchmark)
            for attempt in tries.values():
                attempt(another)
                with pytest.raises(ApiException, match="may restart a Deployment, and change noth"):
                    attempt(benchmark)
        finally:
            cluster.kubectl("delete", "role/whole", "rolebinding/whole", *here)


def _patch(change: Manifest, apps: AppsV1Api) -> None:
    apps.patch_namespaced_deployment(BASE, NAMESPACE, change, dry_run="All")


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
