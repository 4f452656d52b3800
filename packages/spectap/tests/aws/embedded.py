"""An AWS that refuses, fails and comes back: moto behind a loopback port."""

import socket
import threading
from collections.abc import Callable, Iterable
from typing import Any
from urllib.request import Request, urlopen

from moto.moto_server.werkzeug_app import (
    DomainDispatcherApplication,
    MotoRequestHandler,
    create_backend_app,
)
from moto.s3.models import s3_backends
from werkzeug.serving import make_server
from werkzeug.wrappers import Response

REGION = "us-east-2"
BUCKET = "results-bucket"
ACCOUNT = "123456789012"  # moto's own

Environment = dict[str, Any]


class _Quiet(MotoRequestHandler):
    def log(self, *_: object) -> None:
        """Tests look at what the benchmark logs."""


class Aws:
    """moto as a server that can be told to misbehave.

    ``before`` may answer in moto's place; ``after`` sees what moto has done and may break the
    connection, so that the caller never hears of it. ``asked`` lists method and path.
    """

    def __init__(self) -> None:
        self._moto = DomainDispatcherApplication(create_backend_app)
        self.port = 0
        self.start()
        self.behave()

    def behave(self) -> None:
        """No trouble, and nothing asked yet."""
        self.before: Callable[[Environment], Response | None] = lambda _: None
        self.after: Callable[[Environment], object] = lambda _: None
        self.asked: list[tuple[str, str]] = []

    def start(self) -> None:
        self._server = make_server(
            "127.0.0.1", self.port, self._serve, threaded=True, request_handler=_Quiet
        )
        self.port = self._server.server_port
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def stop(self) -> None:
        """From now on connections are refused."""
        self._server.shutdown()
        self._server.server_close()

    def reset(self) -> None:
        """Forgets all that was stored."""
        self.behave()
        with urlopen(Request(f"http://127.0.0.1:{self.port}/moto-api/reset", method="POST")):
            self.asked.clear()

    def _serve(self, environ: Environment, start_response: Any) -> Iterable[bytes]:
        self.asked.append((environ["REQUEST_METHOD"], environ["PATH_INFO"]))
        trouble = self.before(environ)
        if trouble is not None:
            return trouble(environ, start_response)
        answer: Iterable[bytes] = self._moto(environ, start_response)
        self.after(environ)
        return answer


def hang_up(environ: Environment) -> None:
    """Breaks the connection before the answer is out."""
    environ["werkzeug.socket"].shutdown(socket.SHUT_RDWR)


def _s3() -> Any:
    """What is in S3, without a request, of which a test may make hundreds."""
    return s3_backends[ACCOUNT]["aws"]


def make_bucket() -> None:
    _s3().create_bucket(BUCKET, REGION)


def put(key: str, content: bytes = b"x") -> None:
    _s3().put_object(BUCKET, key, content)


def stored(folder: str = "") -> dict[str, bytes]:
    """What the bucket has of a folder, by the path there."""
    objects = _s3().buckets[BUCKET].keys
    return {
        name.removeprefix(folder): objects[name].value
        for name in sorted(objects)
        if name.startswith(folder)
    }


class Clock:
    """Time that passes in pauses only. ``at`` has what happens at a moment."""

    def __init__(self) -> None:
        self.now = 0.0
        self.pauses: list[float] = []
        self.at: dict[float, Callable[[], None]] = {}

    def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += seconds
        for moment in [moment for moment in self.at if moment <= self.now]:
            self.at.pop(moment)()


def failure(status: int, code: str) -> Response:
    body = f"<Error><Code>{code}</Code><Message>in\ntrouble</Message></Error>"
    return Response(body, status, content_type="application/xml")
