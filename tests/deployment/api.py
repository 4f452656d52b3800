"""An API server for lists of objects, for logs, and for what is made.

``tests/cluster`` asks a real one. This one answers what kubelets would have written, too.
"""

import contextlib
import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit


@dataclass
class Objects:
    """What the cluster has."""

    url: str = ""
    lists: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    """By the last part of the path, such as ``pods``."""
    named: dict[str, dict[str, Any] | None] = field(default_factory=dict)
    """Objects by the end of their path, such as ``pods/a``; None is one that is not there."""
    created: list[dict[str, Any]] = field(default_factory=list)
    logs: dict[str, str] = field(default_factory=dict)
    """By ``pod/container``, or ``pod/container/previous``."""
    refused: set[str] = field(default_factory=set)
    """Lists that nobody may read."""
    requests: list[str] = field(default_factory=list)
    """Methods and paths."""
    on_read: Callable[[str], object] = lambda kind: None
    """Called with the last part of the path before each answer."""
    on_created: Callable[[dict[str, Any]], object] = lambda manifest: None
    on_deleted: Callable[[str], object] = lambda name: None


@contextlib.contextmanager
def serving() -> Iterator[Objects]:
    """Serves until it is left."""
    objects = Objects()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = 1 << 16  # an answer in one piece: otherwise the second waits for the first

        def do_GET(self) -> None:
            url = urlsplit(self.path)
            objects.requests.append(f"GET {url.path}")
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
