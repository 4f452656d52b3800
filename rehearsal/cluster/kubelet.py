"""Kubelets without containers: each pod on their nodes is played by programs of this machine."""

from __future__ import annotations

import ipaddress
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kubernetes.client import ApiException

from rehearsal.cluster import statuses
from rehearsal.cluster.api import Api, Manifest
from rehearsal.cluster.logs import LogServer
from rehearsal.cluster.nodes import Nodes
from rehearsal.cluster.playing import PlayedPod
from rehearsal.cluster.programs import Playing, StandIns

_POLL_SECONDS: Final = 0.2
_GONE: Final = (404, 409)


@dataclass(frozen=True)
class Played:
    """A pod that was started, for the record."""

    name: str
    uid: str
    at: str
    labels: tuple[tuple[str, str], ...]


class Kubelets:
    """Those of all nodes; within ``with`` they work, and on leaving nothing of theirs runs."""

    def __init__(self, api: Api, stand_ins: StandIns, folder: Path) -> None:
        """``folder`` takes what the pods write and say."""
        self._api, self._stand_ins, self._folder = api, stand_ins, folder
        self._logs = LogServer(folder, self._container)
        self.nodes: Final = Nodes(api, self._logs.port)
        self.record: Final[list[Played]] = []
        """Every pod that was started, in that order."""
        self._pods: dict[str, PlayedPod] = {}
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._failure: Exception | None = None
        self._addresses = ipaddress.ip_network("10.0.128.0/18").hosts()

    def __enter__(self) -> Kubelets:
        self._logs.start()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        pods = list(self._pods.values())
        for pod in pods:
            pod.stop()
        for pod in pods:
            pod.end()
        self._logs.stop()
        self.check()

    def check(self) -> None:
        """Raises what has kept them from working, if anything has."""
        failures = [self._failure, *(pod.failure for pod in self._pods.values())]
        for failure in failures:
            if failure is not None:
                raise failure

    def ran(self, container: str) -> list[Played]:
        """The pods of the record in which a container of this name has started."""
        return [one for one in self.record if self._has_started(one.uid, container)]

    def _has_started(self, uid: str, container: str) -> bool:
        pod = self._pods.get(uid)
        found = pod.container(container) if pod else None
        return found is not None and found.log() is not None

    def _work(self) -> None:
        try:
            while not self._over.wait(_POLL_SECONDS):
                self.nodes.renew()
                pods = self._api.all("Pod", None)
                for pod in pods:
                    if pod["spec"].get("nodeName") in self.nodes:
                        self._attend(pod)
                self._end_all_but({pod["metadata"]["uid"] for pod in pods})
        except Exception as failure:
            self._failure = failure

    def _attend(self, pod: Manifest) -> None:
        uid = pod["metadata"]["uid"]
        if "deletionTimestamp" in pod["metadata"]:
            self._end(pod)
        elif uid not in self._pods and pod["status"]["phase"] == "Pending":
            self._start(pod)

    def _start(self, pod: Manifest) -> None:
        metadata = pod["metadata"]
        uid, labels = metadata["uid"], metadata.get("labels", {})
        self.record.append(
            Played(metadata["name"], uid, statuses.now(), tuple(sorted(labels.items())))
        )
        self._pods[uid] = PlayedPod(
            self._api, pod, self._stand_ins, self._folder / uid, str(next(self._addresses))
        )

    def _end(self, pod: Manifest) -> None:
        """As a kubelet ends a pod: containers, then the phase, then the object."""
        uid = pod["metadata"]["uid"]
        played = self._pods.get(uid)
        if played is not None:
            played.stop()
            if not played.over:
                return
        try:
            if pod["status"]["phase"] in ("Pending", "Running"):
                self._api.patch(pod, {"status": statuses.ended(pod, "Failed")}, status=True)
            self._api.delete(pod, gracePeriodSeconds=0, preconditions={"uid": uid})
        except ApiException as error:
            if error.status not in _GONE:
                raise

    def _end_all_but(self, there: set[str]) -> None:
        """Pods whose object is gone, as with a node that was taken away."""
        for uid, pod in self._pods.items():
            if uid not in there:
                pod.stop()

    def _container(self, namespace: str, pod: str, container: str) -> Playing | None:
        """The newest of a pod's containers by these names."""
        for played in reversed(list(self._pods.values())):
            metadata = played.pod["metadata"]
            if (metadata["namespace"], metadata["name"]) == (namespace, pod):
                return played.container(container)
        return None
