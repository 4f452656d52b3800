"""The charts in a cluster: rendered, applied, placed, removed again."""

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from ruamel.yaml import YAML

from tests.cluster.api import NAMESPACE, SECONDS, Cluster, Manifest

_GROUP: Final = "resource.aws.com/devicegroup8_id"


def objects(manifests: Path) -> list[Manifest]:
    yaml = YAML(typ="safe", pure=True)
    return [o for path in sorted(manifests.iterdir()) for o in yaml.load_all(path)]


@contextlib.contextmanager
def deployed(
    cluster: Cluster, manifests: Path, namespace: str = NAMESPACE, *, server_side: bool = True
) -> Iterator[None]:
    """Applies ``manifests``; on leaving, what runs and what it claims by is gone. Raises Refused.

    The namespace stays, with what is the same for all tests: to end, it takes ten seconds. A Job
    stays until its pods are gone: one that goes first leaves the Job controller waiting, up to five
    minutes and under the next Job of its name, for a pod that it was just creating.
    """
    try:
        cluster.apply(manifests, server_side=server_side)
        yield
    finally:
        cluster.kubectl(
            *("delete", "deployments,jobs,pods,resourceclaims,resourceclaimtemplates", "--all"),
            *("--namespace", namespace, "--cascade=foreground", f"--timeout={SECONDS:.0f}s"),
        )


def refusal(pod: Manifest) -> str:
    for condition in pod["status"].get("conditions", []):
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            return str(condition.get("message", ""))
    return ""


def pods(cluster: Cluster, label: str, value: str, namespace: str = NAMESPACE) -> list[Manifest]:
    """Pods by a label, those that end left out."""
    return [
        pod
        for pod in cluster.all("Pod", namespace)
        if pod["metadata"].get("labels", {}).get(label) == value
        and "deletionTimestamp" not in pod["metadata"]
    ]


def node_with_label(cluster: Cluster, label: str, value: str, namespace: str = NAMESPACE) -> str:
    def look() -> str | None:
        nodes = (pod["spec"].get("nodeName") for pod in pods(cluster, label, value, namespace))
        return next(filter(None, nodes), None)

    return cluster.until(look, f"a node for {label}={value}")


def service_devices(cluster: Cluster, service: str) -> list[tuple[str, str]]:
    node_with_label(cluster, "app", service)
    (pod,) = pods(cluster, "app", service)
    device_claim = claim(cluster, pod)
    assert device_claim is not None
    return devices(device_claim)


def claim(cluster: Cluster, pod: Manifest) -> Manifest | None:
    for status in pod["status"].get("resourceClaimStatuses", []):
        return cluster.get("ResourceClaim", status["resourceClaimName"])
    return None


def devices(claim: Manifest) -> list[tuple[str, str]]:
    """Pool and name of each device that a claim was given."""
    allocation = claim.get("status", {}).get("allocation") or {"devices": {"results": []}}
    return [(result["pool"], result["device"]) for result in allocation["devices"]["results"]]


def group(cluster: Cluster, device: tuple[str, str]) -> str:
    """The group of eight connected devices that a device, by pool and name, belongs to."""
    pool, name = device
    for published in cluster.all("ResourceSlice", None):
        if published["spec"]["pool"]["name"] == pool:
            (match,) = (d for d in published["spec"]["devices"] if d["name"] == name)
            return str(match["attributes"][_GROUP]["string"])
    raise AssertionError(f"nobody published {pool}/{name}")


def uid(manifest: Manifest) -> str:
    return str(manifest["metadata"]["uid"])


def typed(cluster: Cluster, command: str) -> str:
    """What ``command`` prints, typed as a stack puts it out."""
    plane = cluster.plane
    completed = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", command],
        env={
            "PATH": f"{plane.kubectl.parent}{os.pathsep}{os.environ['PATH']}",
            "KUBECONFIG": str(plane.kubeconfig),
            "HOME": str(plane.kubeconfig.parent),
        },
        check=True,
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    return completed.stdout
