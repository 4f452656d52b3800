"""The Indexed Job of a sweep as the control plane has it: its pods and its own state."""

from __future__ import annotations

import os
import subprocess
from typing import Final, TypeVar

from tests.cluster.api import SECONDS, Cluster, Manifest
from tests.cluster.deployment import claim, devices, group, pods, refusal

JOB: Final = "batch.kubernetes.io"
INDEX_LABEL: Final = f"{JOB}/job-completion-index"
_APP: Final = "qwen-sweep"
_Item = TypeVar("_Item")


def job_of(cluster: Cluster) -> Manifest:
    """The one Job of a sweep."""
    (job,) = (job for job in cluster.all("Job") if labels(job).get("app") == _APP)
    return job


def unfinished(cluster: Cluster) -> list[Manifest]:
    """The Job's pods that are not over."""
    phases = ("Pending", "Running")
    return [pod for pod in pods(cluster, "app", _APP) if pod["status"]["phase"] in phases]


def running(cluster: Cluster) -> list[Manifest]:
    """Those that run, in the order of their indexes."""
    return sorted((p for p in unfinished(cluster) if p["status"]["phase"] == "Running"), key=index)


def until_running(cluster: Cluster, number: int) -> list[Manifest]:
    """The pods that run, once there are as many."""
    return cluster.until(lambda: as_many(number, running(cluster)), f"{number} indexes to run")


def refused(cluster: Cluster) -> list[str]:
    """What the scheduler says of those that it has no place for."""
    return [reason for reason in map(refusal, unfinished(cluster)) if "0/" in reason]


def until_failed(cluster: Cluster, times: int) -> None:
    """Returns once so many pods have."""
    cluster.until(lambda: job_of(cluster)["status"].get("failed") == times, f"{times} failures")


def until_given_up(cluster: Cluster, failed_indexes: str) -> Manifest:
    """The Job, once it has given up these indexes."""

    def look() -> Manifest | None:
        job = job_of(cluster)
        return job if job["status"].get("failedIndexes") == failed_indexes else None

    return cluster.until(look, f"the Job to give up {failed_indexes}")


def until_ended(cluster: Cluster, how: str) -> Manifest:
    """The Job, once it is ``Complete`` or ``Failed``."""

    def look() -> Manifest | None:
        job = job_of(cluster)
        return job if how in conditions(job) else None

    return cluster.until(look, f"the Job to be {how}")


def check_devices(cluster: Cluster, nodes: set[str], count: int) -> None:
    """Each index has eight connected devices on its own node, which no other has; in all ``count``.

    Indexes without a node are passed over.
    """
    allocated = []
    for pod in unfinished(cluster):
        device_claim = claim(cluster, pod)
        if pod["spec"].get("nodeName") and device_claim:
            allocation = devices(device_claim)
            assert len(allocation) == 8
            assert {pool for pool, _ in allocation} == {pod["spec"]["nodeName"]}
            assert len({group(cluster, device) for device in allocation}) == 1
            allocated += allocation
    assert {pool for pool, _ in allocated} == nodes
    assert len(set(allocated)) == len(allocated) == count


def until_without_devices(cluster: Cluster, pod: Manifest) -> None:
    """Returns once the claim of a pod is gone, or empty."""

    def look() -> bool:
        device_claim = claim(cluster, pod)
        return device_claim is None or not devices(device_claim)

    cluster.until(look, "the end of its claim")


def as_many(number: int, items: list[_Item]) -> list[_Item] | None:
    """The items, if they are as many."""
    return items if len(items) == number else None


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
