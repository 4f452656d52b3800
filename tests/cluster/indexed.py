"""An Indexed Job as the control plane has it: the pods of its indexes, and its own state."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from typing import Final, TypeVar

from tests.cluster.api import SECONDS, Cluster, Manifest
from tests.cluster.deployment import claim, devices, group, pods, refusal

JOB: Final = "batch.kubernetes.io"
INDEX_LABEL: Final = f"{JOB}/job-completion-index"
_Item = TypeVar("_Item")


@dataclass(frozen=True)
class Indexed:
    """The one Indexed Job of an experiment, by the value of its label ``app``."""

    app: str

    def job(self, cluster: Cluster) -> Manifest:
        """The Job."""
        (found,) = (job for job in cluster.all("Job") if labels(job).get("app") == self.app)
        return found

    def pods(self, cluster: Cluster) -> list[Manifest]:
        """Those that are not over."""
        found = pods(cluster, "app", self.app)
        return [pod for pod in found if pod["status"]["phase"] in ("Pending", "Running")]

    def running(self, cluster: Cluster) -> list[Manifest]:
        """Those that run, in the order of their indexes."""
        found = [pod for pod in self.pods(cluster) if pod["status"]["phase"] == "Running"]
        return sorted(found, key=index)

    def until_running(self, cluster: Cluster, number: int) -> list[Manifest]:
        """The pods that run, in the order of their indexes, once there are as many."""
        return cluster.until(
            lambda: as_many(number, self.running(cluster)), f"{number} indexes to run"
        )

    def refused(self, cluster: Cluster) -> list[str]:
        """What the scheduler says of those that it has no place for."""
        return [said for said in map(refusal, self.pods(cluster)) if "0/" in said]

    def each_has_a_group_of_its_own(self, cluster: Cluster, nodes: set[str], count: int) -> None:
        """Eight connected devices on its own node, none of which another index has.

        ``count`` are the devices of all of them.
        """
        given = []
        for pod in self.pods(cluster):
            its_claim = claim(cluster, pod)
            if pod["spec"].get("nodeName") and its_claim:
                its = devices(its_claim)
                assert len(its) == 8
                assert {pool for pool, _ in its} == {pod["spec"]["nodeName"]}
                assert len({group(cluster, device) for device in its}) == 1
                given += its
        assert {pool for pool, _ in given} == nodes
        assert len(set(given)) == len(given) == count

    def over(self, cluster: Cluster, pod: Manifest) -> bool:
        """Whether this pod is."""
        return uid(pod) not in map(uid, self.pods(cluster))

    def has_failed(self, cluster: Cluster, times: int) -> bool:
        """Whether so many pods have."""
        return bool(self.job(cluster)["status"].get("failed") == times)

    def with_a_failed_index(self, cluster: Cluster) -> Manifest | None:
        """The Job, once it has given an index up."""
        found = self.job(cluster)
        return found if found["status"].get("failedIndexes") else None

    def ended(self, cluster: Cluster, how: str) -> Manifest | None:
        """The Job, once it is ``Complete`` or ``Failed``."""
        found = self.job(cluster)
        return found if how in conditions(found) else None


def as_many(number: int, found: list[_Item]) -> list[_Item] | None:
    """What was found, once it is as many and nothing is empty."""
    return found if len(found) == number and all(found) else None


def has_no_devices(cluster: Cluster, pod: Manifest) -> bool:
    """Whether the claim of this pod is gone, or empty."""
    its_claim = claim(cluster, pod)
    return its_claim is None or not devices(its_claim)


def conditions(job: Manifest) -> dict[str, Manifest]:
    """Those that are true, by their type."""
    return {c["type"]: c for c in job["status"].get("conditions", []) if c["status"] == "True"}


def index(pod: Manifest) -> str:
    """Of a pod, which index it is."""
    return labels(pod)[INDEX_LABEL]


def labels(manifest: Manifest) -> dict[str, str]:
    """Of any object."""
    found: dict[str, str] = manifest["metadata"]["labels"]
    return found


def uid(manifest: Manifest) -> str:
    """Of any object."""
    found: str = manifest["metadata"]["uid"]
    return found


def typed(cluster: Cluster, command: str) -> str:
    """What ``command`` prints, typed as a stack puts it out."""
    plane = cluster.plane
    done = subprocess.run(
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
    return done.stdout
