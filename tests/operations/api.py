"""Kubernetes objects as an API server answers with them, and one for lists, logs and changes.

``tests/cluster`` asks a real one. This one answers what kubelets would have written, too.
"""

import contextlib
import json
import re
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

from kubernetes.client import ApiClient, CoreV1Event, V1Pod

RUNNING: Final = {"running": {"startedAt": "2026-11-22T10:00:00Z"}}


def path(manifest: dict[str, Any]) -> str:
    """The end of an object's path, such as ``pods/a``."""
    plural = re.sub("y$", "ie", manifest["kind"].lower())
    return f"{plural}s/{manifest['metadata']['name']}"


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


@dataclass
class Objects:
    url: str = ""
    lists: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    """By the last part of the path, such as ``pods``."""
    named: dict[str, dict[str, Any] | None] = field(default_factory=dict)
    """Objects by the end of their path, such as ``pods/a``; None is one that is not there."""
    created: list[dict[str, Any]] = field(default_factory=list)
    changes: list[dict[str, Any]] = field(default_factory=list)
    """What objects were asked to become."""
    logs: dict[str, str] = field(default_factory=dict)
    """By ``pod/container``, or ``pod/container/previous``."""
    refused: set[str] = field(default_factory=set)
    """Lists that nobody may read."""
    requests: list[str] = field(default_factory=list)
    """Methods and paths."""
    authorizations: set[str | None] = field(default_factory=set)
    on_read: Callable[[str], object] = lambda kind: None
    """Called with the last part of the path before each answer."""
    on_created: Callable[[dict[str, Any]], object] = lambda manifest: None
    on_deleted: Callable[[str], object] = lambda name: None


@contextlib.contextmanager
def serving() -> Iterator[Objects]:
    objects = Objects()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = 1 << 16  # an answer in one piece: otherwise the second waits for the first

        def do_GET(self) -> None:
            url = urlsplit(self.path)
            objects.requests.append(f"GET {url.path}")
            objects.authorizations.add(self.headers["Authorization"])
            query = {name: values[0] for name, values in parse_qs(url.query).items()}
            *_, kind, last = url.path.split("/")
            objects.on_read(last)
            if last in objects.refused:
                self._answer(403, "{}")
            elif f"{kind}/{last}" in objects.named:
                manifest = objects.named[f"{kind}/{last}"]
                self._answer(200 if manifest else 404, json.dumps(manifest))
            elif last == "log":
                self._log(url.path.split("/")[-2], query)
            else:
                self._answer(200, json.dumps({"items": _selected(objects, last, query)}))

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            manifest = json.loads(body)
            objects.requests.append(f"POST {self.path}")
            objects.created.append(manifest)
            kind = urlsplit(self.path).path.rpartition("/")[2]
            objects.named[f"{kind}/{manifest['metadata']['name']}"] = manifest
            objects.on_created(manifest)
            self._answer(201, json.dumps(manifest))

        def do_PATCH(self) -> None:
            objects.requests.append(f"PATCH {self.path}")
            objects.changes.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            is_refused = self.path.rpartition("/")[2] in objects.refused
            self._answer(403 if is_refused else 200, "{}")

        def do_DELETE(self) -> None:
            path = urlsplit(self.path).path
            objects.requests.append(f"DELETE {path}")
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            *_, kind, name = path.split("/")
            objects.named[f"{kind}/{name}"] = None
            objects.on_deleted(name)
            self._answer(200, "{}")

        def _log(self, pod: str, query: dict[str, str]) -> None:
            previous = "/previous" if query.get("previous") in ("true", "True") else ""
            text = objects.logs.get(f"{pod}/{query['container']}{previous}")
            if text is None:
                self._answer(400, json.dumps({"message": "is waiting to start"}))
                return
            if tail := query.get("tailLines"):
                text = "".join(f"{line}\n" for line in text.splitlines()[-int(tail) :])
            self._answer(200, text)

        def _answer(self, status: int, text: str) -> None:
            body = text.encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Not to the terminal."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    objects.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield objects
    finally:
        server.shutdown()
        server.server_close()


def _selected(objects: Objects, kind: str, query: dict[str, str]) -> list[dict[str, Any]]:
    """By labels and by ``involvedObject.uid``, the only selectors that are used."""
    selected = objects.lists.get(kind, [])
    if selector := query.get("labelSelector"):
        key, _, value = selector.partition("=")
        selected = [
            each for each in selected if each["metadata"].get("labels", {}).get(key) == value
        ]
    if selector := query.get("fieldSelector"):
        uid = selector.partition("=")[2]
        selected = [each for each in selected if each["involvedObject"]["uid"] == uid]
    return selected
