"""As much of the Hugging Face Hub as downloading a checkpoint asks for.

Modelled on what the Hub answers: the tree of a revision as JSON, and files with their ETag,
length and commit in the headers.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit


class Hub:
    """A hub on loopback while the context lasts."""

    def __init__(self, repositories: Mapping[tuple[str, str], Mapping[str, bytes]]) -> None:
        """``repositories``: their files, by the repository's name and revision."""
        self.downloads: list[str] = []
        """Files whose content somebody asked for, as often as they did."""
        hub = self
        trees, contents = dict[str, bytes](), dict[str, tuple[str, str, bytes]]()
        for (repository, revision), files in repositories.items():
            tree = json.dumps([_entry(name, content) for name, content in files.items()])
            trees[f"/api/models/{repository}/tree/{revision}"] = tree.encode()
            for name, content in files.items():
                path = f"/{repository}/resolve/{revision}/{name}"
                contents[path] = name, revision, content

        class Handler(BaseHTTPRequestHandler):
            def do_HEAD(self) -> None:
                self._answer(send_body=False)

            def do_GET(self) -> None:
                self._answer(send_body=True)

            def _answer(self, *, send_body: bool) -> None:
                path = urlsplit(self.path).path
                if path in trees:
                    self._send(trees[path])
                elif path in contents:
                    name, revision, content = contents[path]
                    if send_body:
                        hub.downloads.append(name)
                    headers = {"ETag": f'"{_sha1(content)}"', "X-Repo-Commit": revision}
                    self._send(content, headers, send_body=send_body)
                else:
                    self.send_error(404)

            def _send(
                self,
                body: bytes,
                headers: Mapping[str, str] | None = None,
                *,
                send_body: bool = True,
            ) -> None:
                self.send_response(200)
                for header, value in (headers or {}).items():
                    self.send_header(header, value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                if send_body:
                    self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                """Say nothing: whoever downloads says it."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._server.server_close()


def _entry(name: str, content: bytes) -> dict[str, object]:
    return {"type": "file", "path": name, "size": len(content), "oid": _sha1(content)}


def _sha1(content: bytes) -> str:
    return hashlib.sha1(content).hexdigest()
