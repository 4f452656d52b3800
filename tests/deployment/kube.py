"""Kubernetes objects as JSON, and as its client makes them of what the API server answers."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any, Final

from kubernetes.client import ApiClient, CoreV1Event, V1Pod

RUNNING: Final = {"running": {"startedAt": "2026-11-22T10:00:00Z"}}


def meta(name: str, labels: dict[str, str] | None = None) -> dict[str, Any]:
    return {
        "name": name,
        "namespace": "speculative-decoding",
        "uid": f"{name}-uid",
        "labels": labels or {},
        "creationTimestamp": "2026-11-22T10:00:00Z",
    }


def pod(
    name: str,
    labels: dict[str, str],
    phase: str,
    *containers: dict[str, Any],
    init: tuple[dict[str, Any], ...] = (),
    node: str | None = "t-0",
    **status: Any,
) -> dict[str, Any]:
    """A service's pod with a sidecar. It is ready if all of its containers are."""
    is_ready = phase == "Running" and all(each["ready"] for each in (*containers, *init))
    condition = {
        "type": "Ready",
        "status": str(is_ready),
        "lastTransitionTime": "2026-11-22T10:20:00Z",
    }
    spec: dict[str, Any] = {
        "initContainers": [
            {"name": "fetch-artifact"},
            {"name": "keep-cache", "restartPolicy": "Always"},
        ],
        "containers": [{"name": "vllm"}],
    }
    return {
        "metadata": meta(name, labels),
        "spec": spec | ({"nodeName": node} if node else {}),
        "status": {
            "phase": phase,
            "initContainerStatuses": [*init],
            "containerStatuses": [*containers],
            "conditions": [condition, *status.pop("conditions", [])],
        }
        | status,
    }


def typed(manifest: dict[str, Any], kind: str = "V1Pod") -> Any:
    return ApiClient().deserialize(SimpleNamespace(data=json.dumps(manifest)), kind)


def typed_pod(phase: str, *containers: dict[str, Any], **options: Any) -> V1Pod:
    return typed(pod("qwen-vllm-1", {}, phase, *containers, **options))


def container(
    name: str = "vllm",
    state: dict[str, Any] | None = None,
    *,
    last: dict[str, Any] | None = None,
    restarts: int = 0,
    started: bool | None = None,
    ready: bool = False,
) -> dict[str, Any]:
    """A container's status as a kubelet writes it."""
    status: dict[str, Any] = {
        "name": name,
        "image": "any",
        "imageID": "",
        "ready": ready,
        "restartCount": restarts,
        "state": state or {},
        "lastState": {"terminated": last} if last else {},
    }
    return status if started is None else status | {"started": started}


def ended(code: int, **fields: Any) -> dict[str, Any]:
    usual = {"exitCode": code, "reason": "Error" if code else "Completed"}
    return usual | {"finishedAt": "2026-11-22T10:00:00Z"} | fields


def event(reason: str, message: str, minute: int = 0, uid: str = "qwen-vllm-1-uid") -> CoreV1Event:
    manifest = {
        "metadata": {"name": "e", "namespace": "speculative-decoding"},
        "involvedObject": {"kind": "Pod", "uid": uid},
        "reason": reason,
        "message": message,
        "lastTimestamp": f"2026-11-22T10:{minute:02}:00Z",
    }
    return typed(manifest, "CoreV1Event")
