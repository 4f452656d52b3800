"""Restarts the services of a benchmark's configuration; returns once their new pods are ready.

Runs in the benchmark's pod, whose account may read and patch these Deployments and nothing else.
That image has no client of Kubernetes: this needs the standard library alone.
"""

from __future__ import annotations

import json
import os
import ssl
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

API_SERVER = "https://kubernetes.default.svc"
ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
POLL_SECONDS = 5.0
# Graph and weights to local disk, and loading, take a quarter of an hour.
LIMIT_SECONDS = 90 * 60


class Deployments:
    """The Deployments of the pod's own namespace."""

    def __init__(self, server: str = API_SERVER, account: Path = ACCOUNT) -> None:
        namespace = (account / "namespace").read_text(encoding="utf-8")
        self._url = f"{server}/apis/apps/v1/namespaces/{namespace}/deployments"
        self._token = account / "token"
        authority = account / "ca.crt"
        self._context = (
            ssl.create_default_context(cafile=authority) if server.startswith("https:") else None
        )

    def read(self, name: str) -> Mapping[str, Any]:
        """Raises OSError."""
        return self._send(name)

    def restart(self, name: str, at: str) -> None:
        """Makes its pods new ones, as ``kubectl rollout restart`` does. Raises OSError."""
        annotations = {"kubectl.kubernetes.io/restartedAt": at}
        template = {"metadata": {"annotations": annotations}}
        self._send(name, {"spec": {"template": template}})

    def _send(self, name: str, change: object = None) -> Mapping[str, Any]:
        # Read each time: kubelet writes a new token before the old one ends.
        headers = {"Authorization": f"Bearer {self._token.read_text(encoding='utf-8')}"}
        body, method = None, "GET"
        if change is not None:
            body, method = json.dumps(change).encode(), "PATCH"
            headers["Content-Type"] = "application/strategic-merge-patch+json"
        request = Request(f"{self._url}/{name}", body, headers, method=method)
        try:
            with urlopen(request, timeout=30, context=self._context) as answer:
                content: Mapping[str, Any] = json.load(answer)
        except HTTPError as error:
            error.close()  # it holds the connection
            raise
        return content


def rolled_out(deployment: Mapping[str, Any]) -> bool:
    """Whether its controller has seen the last change, and all its pods are new and ready."""
    wanted, status = deployment["spec"].get("replicas", 1), deployment.get("status", {})
    counts = [status.get(key, 0) for key in ("updatedReplicas", "readyReplicas", "replicas")]
    seen = status.get("observedGeneration", 0) >= deployment["metadata"]["generation"]
    return bool(seen and counts == [wanted] * 3)


def services(config: Mapping[str, Any]) -> list[str]:
    """The names of the services, which are those of their Deployments."""
    hosts = [urlsplit(variant["endpoint"]).hostname or "" for variant in config["variants"]]
    return [host.partition(".")[0] for host in hosts]


def relaunch(
    names: Sequence[str],
    deployments: Deployments,
    *,
    limit_seconds: float = LIMIT_SECONDS,
    poll_seconds: float = POLL_SECONDS,
) -> list[str]:
    """Restarts them all, and waits; returns what went wrong."""
    at, end = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), time.monotonic() + limit_seconds
    try:
        for name in names:
            deployments.restart(name, at)
    except OSError as error:
        return [f"{name} was not restarted: {error}"]
    waiting = dict.fromkeys(names, "its new pod is not ready")
    while waiting and time.monotonic() < end:
        for name in [*waiting]:
            try:
                if rolled_out(deployments.read(name)):
                    del waiting[name]
            except OSError as error:  # the API server may be away for a while
                waiting[name] = str(error)
        time.sleep(poll_seconds if waiting else 0)
    return [f"{name}: after {limit_seconds:.0f} s: {why}" for name, why in waiting.items()]


if __name__ == "__main__":
    configured = json.loads(Path(os.environ["BENCHMARK_CONFIG"]).read_text(encoding="utf-8"))
    sys.exit("\n".join(relaunch(services(configured), Deployments())) or 0)
