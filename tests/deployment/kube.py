"""Kubernetes objects from JSON, as its client makes them of what the API server answers."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

from kubernetes.client import ApiClient, CoreV1Event, V1Pod


def typed(manifest: dict[str, Any], kind: str) -> Any:
    """``manifest`` as the client's class ``kind``."""
    return ApiClient().deserialize(SimpleNamespace(data=json.dumps(manifest)), kind)


def pod(
    status: dict[str, Any], *, node: str | None = "trainium-0", group: str | None = "trainium"
) -> V1Pod:
    """A service's pod with a sidecar, on ``node``, for the nodes of ``group``."""
    spec: dict[str, Any] = {
        "initContainers": [
            {"name": "fetch-artifact", "image": "aws-cli"},
            {"name": "keep-cache", "image": "aws-cli", "restartPolicy": "Always"},
        ],
        "containers": [{"name": "vllm", "image": "neuron"}],
    }
    if node:
        spec["nodeName"] = node
    if group:
        spec["nodeSelector"] = {"speculative-decoding/node-group": group}
    metadata = {"name": "qwen-vllm-1", "namespace": "speculative-decoding", "uid": "u-1"}
    return typed({"metadata": metadata, "spec": spec, "status": status}, "V1Pod")


def unplaced(message: str) -> dict[str, Any]:
    """The status of a pod that the scheduler has no place for."""
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    return {"phase": "Pending", "conditions": [condition | {"message": message}]}


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
    """How a container ended."""
    return {"exitCode": code, "reason": "Error" if code else "Completed"} | fields


def event(reason: str, message: str, **fields: Any) -> CoreV1Event:
    """An event of ``pod``."""
    return typed(
        {
            "metadata": {"name": "e", "namespace": "speculative-decoding"},
            "involvedObject": {"kind": "Pod", "uid": fields.pop("uid", "u-1")}
            | ({"fieldPath": fields.pop("path")} if "path" in fields else {}),
            "reason": reason,
            "message": message,
            "type": "Warning",
            "lastTimestamp": "2026-11-22T10:00:00Z",
        }
        | fields,
        "CoreV1Event",
    )
