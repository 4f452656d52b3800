"""The charts in a cluster: rendered, applied, placed, removed again."""

from __future__ import annotations

import contextlib
import os
import subprocess
import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ruamel.yaml import YAML

from charts.names import NAMESPACE
from experiment import Experiment
from tests.cluster.api import SECONDS, Cluster, Manifest
from tests.rehearsal.conftest import write_deployed
from tests.synthesis import ACCOUNT

SETTLED_SECONDS: Final = 5.0
"""The scheduler's word counts once it has stood for so long: nodes may just have come."""
_GROUP: Final = "resource.aws.com/devicegroup8_id"
_NOT_YET: Final = "unbound immediate PersistentVolumeClaims"
"""No word about a place: the volume's controller looks every fifteen seconds."""


class Unschedulable(Exception):
    """The scheduler's own words about a pod that it has no place for."""


@dataclass(frozen=True)
class Manifests:
    """A folder of manifests, as ``make synth ACCOUNT=...`` leaves them in ``dist/``."""

    directory: Path

    def objects(self) -> list[Manifest]:
        """All objects, in the order in which kubectl applies them."""
        yaml = YAML(typ="safe", pure=True)
        return [o for path in sorted(self.directory.iterdir()) for o in yaml.load_all(path)]

    def named(self, kind: str, name: str) -> Manifest:
        """The one whose name is or starts with ``name``."""
        of_kind = (o for o in self.objects() if o["kind"] == kind)
        matches = [o for o in of_kind if o["metadata"]["name"].startswith(name)]
        assert len(matches) == 1, f"{len(matches)} objects {kind}/{name}"
        return matches[0]


def without(manifests: Manifests, names: Collection[str], into: Path) -> Manifests:
    """The same below ``into``, but for the objects of these names."""
    yaml = YAML(typ="safe", pure=True)
    into.mkdir()
    for path in sorted(manifests.directory.iterdir()):
        objects = [o for o in yaml.load_all(path) if o["metadata"]["name"] not in names]
        yaml.dump_all(objects, into / path.name)
    return Manifests(into)


def render(experiment: Experiment, directory: Path) -> Manifests:
    """What ``app.py`` writes for ``experiment`` and an account."""
    write_deployed(experiment, ACCOUNT, directory)
    return Manifests(directory)


@contextlib.contextmanager
def deployed(cluster: Cluster, manifests: Manifests, *, server_side: bool = True) -> Iterator[None]:
    """Applies ``manifests``; on leaving, what runs and what it claims by is gone. Raises Refused.

    The namespace stays, with what is the same for all tests: to end, it takes ten seconds.
    """
    try:
        cluster.apply(manifests.directory, server_side=server_side)
        yield
    finally:
        cluster.kubectl(
            *("delete", "deployments,jobs,pods,resourceclaims,resourceclaimtemplates", "--all"),
            *("--namespace", NAMESPACE, f"--timeout={SECONDS:.0f}s"),
        )


def node_of(cluster: Cluster, find: Callable[[], Manifest | None], description: str) -> str:
    """Where the scheduler places a pod. Raises Unschedulable if it has no place for it."""
    reason, since = "", time.monotonic()

    def look() -> str | None:
        nonlocal reason, since
        pod = find()
        if pod is None:
            return None
        if node := pod["spec"].get("nodeName"):
            return str(node)
        if (current := refusal(pod)) != reason:
            reason, since = current, time.monotonic()
        final = reason and _NOT_YET not in reason
        if final and time.monotonic() - since > SETTLED_SECONDS:
            raise Unschedulable(reason)
        return None

    return cluster.until(look, f"a node for {description}; said last: {reason}")


def refusal(pod: Manifest) -> str:
    """Why the scheduler has no place for a pod, or nothing."""
    for condition in pod["status"].get("conditions", []):
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            return str(condition.get("message", ""))
    return ""


def pods(cluster: Cluster, label: str, value: str) -> list[Manifest]:
    """Pods by a label, those that end left out."""
    return [
        pod
        for pod in cluster.all("Pod")
        if pod["metadata"].get("labels", {}).get(label) == value
        and "deletionTimestamp" not in pod["metadata"]
    ]


def node_with_label(cluster: Cluster, label: str, value: str) -> str:
    """The node of the one pod with a label. Raises Unschedulable."""
    return node_of(
        cluster, lambda: next(iter(pods(cluster, label, value)), None), f"{label}={value}"
    )


def service_devices(cluster: Cluster, service: str) -> list[tuple[str, str]]:
    """Pool and name of each device that a service was given. Raises Unschedulable."""
    node_with_label(cluster, "app", service)
    (pod,) = pods(cluster, "app", service)
    device_claim = claim(cluster, pod)
    assert device_claim is not None
    return devices(device_claim)


def compile_jobs(manifests: Manifests) -> list[str]:
    """Names of the Jobs that compile."""
    return [
        manifest["metadata"]["name"]
        for manifest in manifests.objects()
        if manifest["kind"] == "Job" and manifest["metadata"]["labels"].get("step") == "compile"
    ]


def succeeded(cluster: Cluster, job: str) -> bool:
    """Whether a Job has."""
    manifest = cluster.get("Job", job)
    return bool(manifest and manifest["status"].get("succeeded"))


def claim(cluster: Cluster, pod: Manifest) -> Manifest | None:
    """The device claim made for a pod."""
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
    """Of any object."""
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
