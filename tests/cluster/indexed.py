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
        (matching,) = (job for job in cluster.all("Job") if labels(job).get("app") == self.app)
        return matching

    def pods(self, cluster: Cluster) -> list[Manifest]:
        """Those that are not over."""
        pods_of_app = pods(cluster, "app", self.app)
        return [pod for pod in pods_of_app if pod["status"]["phase"] in ("Pending", "Running")]

    def running(self, cluster: Cluster) -> list[Manifest]:
        """Those that run, in the order of their indexes."""
        running = [pod for pod in self.pods(cluster) if pod["status"]["phase"] == "Running"]
        return sorted(running, key=index)

    def until_running(self, cluster: Cluster, number: int) -> list[Manifest]:
        """The pods that run, in the order of their indexes, once there are as many."""
        return cluster.until(
            lambda: as_many(number, self.running(cluster)), f"{number} indexes to run"
        )

    def refused(self, cluster: Cluster) -> list[str]:
        """What the scheduler says of those that it has no place for."""
        return [reason for reason in map(refusal, self.pods(cluster)) if "0/" in reason]

    def each_has_a_group_of_its_own(self, cluster: Cluster, nodes: set[str], count: int) -> None:
        """Eight connected devices on its own node, none of which another index has.

        ``count`` are the devices of all of them.
        """
        allocated = []
        for pod in self.pods(cluster):
            its_claim = claim(cluster, pod)
            if pod["spec"].get("nodeName") and its_claim:
                allocation = devices(its_claim)
                assert len(allocation) == 8
                assert {pool for pool, _ in allocation} == {pod["spec"]["nodeName"]}
                assert len({group(cluster, device) for device in allocation}) == 1
                allocated += allocation
        assert {pool for pool, _ in allocated} == nodes
        assert len(set(allocated)) == len(allocated) == count

    def over(self, cluster: Cluster, pod: Manifest) -> bool:
        """Whether this pod is."""
        return uid(pod) not in map(uid, self.pods(cluster))

    def has_failed(self, cluster: Cluster, times: int) -> bool:
        """Whether so many pods have."""
        return bool(self.job(cluster)["status"].get("failed") == times)

    def with_a_failed_index(self, cluster: Cluster) -> Manifest | None:
        """The Job, once it has given an index up."""
        job = self.job(cluster)
        return job if job["status"].get("failedIndexes") else None

    def ended(self, cluster: Cluster, how: str) -> Manifest | None:
        """The Job, once it is ``Complete`` or ``Failed``."""
        job = self.job(cluster)
        return job if how in conditions(job) else None


def as_many(number: int, items: list[_Item]) -> list[_Item] | None:
    """What was found, once it is as many and nothing is empty."""
    return items if len(items) == number and all(items) else None


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
    values: dict[str, str] = manifest["metadata"]["labels"]
    return values


def uid(manifest: Manifest) -> str:
    """Of any object."""
    value: str = manifest["metadata"]["uid"]
    return value


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
