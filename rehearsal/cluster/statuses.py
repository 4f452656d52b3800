"""What a kubelet reports of a pod's life."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import Any, Final

from rehearsal.cluster.api import Manifest

_READY: Final = ("ContainersReady", "Ready")
_INITIALIZED: Final = ("PodReadyToStartContainers", "Initialized")
_OWN: Final = frozenset({*_READY, *_INITIALIZED})


def running(pod: Manifest, address: str) -> dict[str, Any]:
    """A pod that runs and is ready."""
    conditions = [condition(kind, true=True) for kind in (*_INITIALIZED, *_READY)]
    return {
        "phase": "Running",
        "podIP": address,
        "podIPs": [{"ip": address}],
        "startTime": now(),
        "conditions": [*conditions, *_others(pod, _OWN)],
    }


def living(
    pod: Manifest,
    address: str,
    began: str,
    init: Sequence[dict[str, Any]],
    containers: Sequence[dict[str, Any]],
    *,
    initialized: bool,
) -> dict[str, Any]:
    """A pod whose containers have these statuses: pending until those that begin it are over."""
    sidecars = [status for status in init if "running" in status["state"]] if initialized else []
    ready = initialized and all(status["ready"] for status in (*sidecars, *containers))
    conditions = [
        condition("PodReadyToStartContainers", true=True),
        condition("Initialized", true=initialized),
        *(condition(kind, true=ready) for kind in _READY),
    ]
    return {
        "phase": "Running" if initialized else "Pending",
        "podIP": address,
        "podIPs": [{"ip": address}],
        "startTime": began,
        "conditions": [*conditions, *_others(pod, _OWN)],
        "initContainerStatuses": [*init],
        "containerStatuses": [*containers],
    }


def ended(pod: Manifest, phase: str, when: str | None = None) -> dict[str, Any]:
    """What the kubelet says at the end; what others said of the pod it keeps."""
    conditions = [condition(kind, true=False, when=when) for kind in _READY]
    return {"phase": phase, "conditions": [*conditions, *_others(pod, frozenset(_READY))]}


def condition(kind: str, *, true: bool, when: str | None = None) -> dict[str, str]:
    """A condition as it is from ``when`` on, or from now."""
    return {"type": kind, "status": str(true), "lastTransitionTime": when or now()}


def now(*, hours: int = 0) -> str:
    """The time in so many hours."""
    then = datetime.datetime.now(datetime.UTC) + datetime.timedelta(hours=hours)
    return then.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _others(pod: Manifest, own: frozenset[str]) -> list[dict[str, Any]]:
    return [c for c in pod["status"].get("conditions", []) if c["type"] not in own]
