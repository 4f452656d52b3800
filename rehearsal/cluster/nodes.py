"""Nodes that their kubelets registered and keep alive by leases.

A lease is what the node lifecycle controller looks at.
"""

from __future__ import annotations

import time
from typing import Final

from kubernetes.client import ApiException

from rehearsal.cluster.api import Api, Manifest
from rehearsal.cluster.statuses import now

_LEASE_SECONDS: Final = 10.0
_LEASES: Final = "kube-node-lease"


class Nodes:
    """The nodes of one cluster. ``port`` is that of their kubelets, on loopback."""

    def __init__(self, api: Api, port: int | None = None) -> None:
        self._api, self._port = api, port
        self._names: set[str] = set()
        self._renewed = float("-inf")

    def __contains__(self, name: object) -> bool:
        return name in self._names

    @property
    def names(self) -> frozenset[str]:
        """Of those that stand."""
        return frozenset(self._names)

    def add(self, node: Manifest) -> None:
        """Registers ``node``, ready. Raises ApiException."""
        created = self._api.create(node)
        condition = {
            "type": "Ready",
            "status": "True",
            "reason": "KubeletReady",
            "lastHeartbeatTime": now(),
            "lastTransitionTime": now(),
        }
        status = {"conditions": [condition], **self._reached_at()}
        self._api.patch(created, {"status": status}, status=True)
        name = node["metadata"]["name"]
        lease = {"holderIdentity": name, "leaseDurationSeconds": 40, "renewTime": now()}
        self._api.create(
            {
                "apiVersion": "coordination.k8s.io/v1",
                "kind": "Lease",
                "metadata": {"name": name, "namespace": _LEASES},
                "spec": lease,
            },
            _LEASES,
        )
        self._names.add(name)

    def remove(self, name: str) -> None:
        """Takes a node away, with its devices and all that runs there. Raises ApiException."""
        for kind in ("ResourceSlice", "Node"):
            for found in self._api.all(kind, None):
                if name in (found["metadata"]["name"], found["spec"].get("nodeName")):
                    self._api.delete(found)

    def forget(self, name: str) -> None:
        """Takes a node away for good, with the lease that no node controller would remove."""
        self.remove(name)
        if lease := self._api.get("Lease", name, _LEASES):
            self._api.delete(lease)
        self._names.discard(name)

    def renew(self) -> None:
        """Renews the leases where it is time to. Raises ApiException."""
        if time.monotonic() - self._renewed < _LEASE_SECONDS:
            return
        for name in list(self._names):
            lease = self._api.get("Lease", name, _LEASES)
            if lease is None:
                continue
            try:
                self._api.patch(lease, {"spec": {"renewTime": now()}})
            except ApiException as error:
                # Another thread has removed the node since.
                if error.status != 404:
                    raise
        self._renewed = time.monotonic()

    def _reached_at(self) -> Manifest:
        """Where the API server finds the kubelet when it is asked for a log."""
        if self._port is None:
            return {}
        return {
            "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": self._port}},
        }
