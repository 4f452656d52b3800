"""What kubelets tell the API server, without any container.

A pod on a node of theirs has an address, runs and is ready at once; one that is deleted takes a
moment to end.
"""

from __future__ import annotations

import datetime
import ipaddress
import threading
import time
from collections.abc import Iterable
from typing import Any, Final

from kubernetes.client import ApiException

from tests.cluster.api import Cluster, Manifest

TERMINATION_SECONDS: Final = 0.5
"""Long enough for whoever starts a successor too early to be seen doing it."""
_POLL_SECONDS: Final = 0.1
_FOUND_ANOTHER = (404, 409)
_JOB_NAME: Final = "batch.kubernetes.io/job-name"
_READY: Final = ("ContainersReady", "Ready")
_INITIALIZED: Final = ("PodReadyToStartContainers", "Initialized")


class Kubelets:
    """The kubelets of all nodes that were added; within ``with`` they work."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._nodes: set[str] = set()
        self._finishing: set[str] = set()
        self._ending: dict[str, float] = {}
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._failure: Exception | None = None
        self._addresses = ipaddress.ip_network("10.0.128.0/18").hosts()

    def __enter__(self) -> Kubelets:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        if self._failure is not None:
            raise self._failure

    def add(self, node: Manifest) -> None:
        created = self._cluster.create(node)
        condition = _condition("Ready", true=True) | {"reason": "KubeletReady"}
        self._cluster.patch(created, {"status": {"conditions": [condition]}}, status=True)
        self._nodes.add(node["metadata"]["name"])

    def remove(self, name: str) -> None:
        """Takes a node away, with its devices and all that runs there. Raises ApiException."""
        for kind in ("ResourceSlice", "Node"):
            for manifest in self._cluster.all(kind, None):
                if name in (manifest["metadata"]["name"], manifest["spec"].get("nodeName")):
                    self._cluster.delete(manifest)

    def finish(self, jobs: Iterable[str]) -> None:
        """From now on the pods of these Jobs end well."""
        self._finishing.update(jobs)

    def end(self, pod: Manifest, container: str, exit_code: int) -> None:
        """A container of a running ``pod`` has ended, and the pod with it: an hour ago.

        For a pod that ended just now the Job controller waits before it makes another, ten seconds
        and twice as long after each further failure.
        """
        spec, earlier = pod["spec"], now(hours=-1)
        init = container in [each["name"] for each in spec.get("initContainers", [])]
        terminated = {"exitCode": exit_code, "startedAt": earlier, "finishedAt": earlier}
        required = {"image": "any", "imageID": "any", "ready": False, "restartCount": 0}
        status = {"name": container, "state": {"terminated": terminated}, **required}
        pod_status = ended("Failed" if exit_code else "Succeeded", earlier)
        statuses = {"initContainerStatuses" if init else "containerStatuses": [status]}
        self._cluster.patch(pod, {"status": pod_status | statuses}, status=True)

    def _work(self) -> None:
        try:
            while not self._over.wait(_POLL_SECONDS):
                for pod in self._cluster.all("Pod", None):
                    if pod["spec"].get("nodeName") in self._nodes:
                        self._attend(pod)
        except Exception as failure:
            self._failure = failure

    def _attend(self, pod: Manifest) -> None:
        phase, labels = pod["status"]["phase"], pod["metadata"].get("labels", {})
        try:
            if "deletionTimestamp" in pod["metadata"]:
                self._end(pod)
            elif phase == "Pending":
                pod_status = running(str(next(self._addresses)))
                self._cluster.patch(pod, {"status": pod_status}, status=True)
            elif phase == "Running" and labels.get(_JOB_NAME) in self._finishing:
                self._cluster.patch(pod, {"status": ended("Succeeded")}, status=True)
        except ApiException as error:
            # Somebody was faster; the next round sees what there is then.
            if error.status not in _FOUND_ANOTHER:
                raise

    def _end(self, pod: Manifest) -> None:
        """As a kubelet ends a pod: containers, then the phase, then the object."""
        uid = pod["metadata"]["uid"]
        began = self._ending.setdefault(uid, time.monotonic())
        if time.monotonic() - began < TERMINATION_SECONDS:
            return
        if pod["status"]["phase"] in ("Pending", "Running"):
            self._cluster.patch(pod, {"status": ended("Failed")}, status=True)
        self._cluster.delete(pod, gracePeriodSeconds=0, preconditions={"uid": uid})


def running(address: str) -> dict[str, Any]:
    return {
        "phase": "Running",
        "podIP": address,
        "podIPs": [{"ip": address}],
        "startTime": now(),
        "conditions": [_condition(kind, true=True) for kind in (*_INITIALIZED, *_READY)],
    }


def ended(phase: str, when: str | None = None) -> dict[str, Any]:
    conditions = [_condition(kind, true=False, when=when) for kind in _READY]
    return {"phase": phase, "conditions": conditions}


def _condition(kind: str, *, true: bool, when: str | None = None) -> dict[str, str]:
    """A condition as it is from ``when`` on, or from now."""
    return {"type": kind, "status": str(true), "lastTransitionTime": when or now()}


def now(*, hours: int = 0) -> str:
    moment = datetime.datetime.now(datetime.UTC) + datetime.timedelta(hours=hours)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
