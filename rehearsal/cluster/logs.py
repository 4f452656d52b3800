"""What the API server asks kubelets for when somebody wants a pod's log: ``/containerLogs``."""

from __future__ import annotations

import ssl
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

from control_plane.certificates import Authority
from rehearsal.cluster.programs import Playing

_ADDRESS: Final = "127.0.0.1"
_POLL_SECONDS: Final = 0.2
_KNOWN: Final = frozenset({"follow", "tailLines", "previous", "limitBytes"})
"""Of a log's options. Others are refused, lest an answer is not what was asked for."""


class LogServer:
    """Serves on loopback, with a certificate that nobody checks: the API server was given none.

    Path and options as in kubelet v1.35, ``pkg/kubelet/server/server.go``, ``getContainerLogs``.
    """

    def __init__(self, folder: Path, find: Callable[[str, str, str], Playing | None]) -> None:
        """``find``: a container by the names of namespace, pod and container."""
        self._server = ThreadingHTTPServer((_ADDRESS, 0), _handler(find))
        self._server.daemon_threads = True
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        folder.mkdir(parents=True, exist_ok=True)
        pair = Authority().server(_ADDRESS)
        file = folder / "kubelet.pem"
        file.touch(mode=0o600)
        file.write_bytes(pair.public + pair.private)
        context.load_cert_chain(file)
        self._server.socket = context.wrap_socket(
            self._server.socket, server_side=True, do_handshake_on_connect=False
        )
        self.port: Final[int] = self._server.server_address[1]

    def start(self) -> None:
        """Serves in a thread of its own."""
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def stop(self) -> None:
        """Serves no longer."""
        self._server.shutdown()
        self._server.server_close()


def _handler(
    find: Callable[[str, str, str], Playing | None],
) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked = urlsplit(self.path)
            options = {name: values[-1] for name, values in parse_qs(asked.query).items()}
            begin, *names = asked.path.strip("/").split("/")
            if begin != "containerLogs" or len(names) != 3:
                return self.send_error(404)
            if unknown := options.keys() - _KNOWN:
                return self.send_error(400, f"not understood: {', '.join(sorted(unknown))}")
            playing = find(*names)
            log = playing.log(previous=options.get("previous") == "true") if playing else None
            if playing is None or log is None:
                # In words of kubelet's own: it is what kubectl prints.
                return self.send_error(400, f'container "{names[2]}" is waiting to start')
            self.send_response(200)
            self.send_header("Content-Type", "text/plain")
            self.end_headers()
            for part in _said(playing, log, options):
                self.wfile.write(part)
            return None

        def log_message(self, format: str, *args: Any) -> None:
            """Say nothing: a request for a log is nobody's news."""

    return Handler


def _said(playing: Playing, log: Path, options: dict[str, str]) -> Iterator[bytes]:
    with log.open("rb") as file:
        text = file.read()
        if "tailLines" in options:
            lines = text.splitlines(keepends=True)
            text = b"".join(lines[max(0, len(lines) - int(options["tailLines"])) :])
        if "limitBytes" in options:
            text = text[: int(options["limitBytes"])]
        yield text
        while options.get("follow") == "true":
            more = playing.log() == log and playing.runs
            if part := file.read():
                yield part
            elif not more:
                return
            time.sleep(_POLL_SECONDS)
