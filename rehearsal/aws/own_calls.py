"""What the embedded AWS answers beside AWS's own calls."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any, Final

from werkzeug.wrappers import Request, Response

from rehearsal.aws import authenticator
from rehearsal.aws.mended import sizes

PREFIX: Final = "/rehearsal/"
AUTHENTICATE: Final = f"{PREFIX}authenticate/"
"""POST, followed by a cluster's name: the webhook that the API server sends tokens to."""
SIZES: Final = f"{PREFIX}sizes"
"""GET: every node group that ever was, with its sizes over time."""


class OwnCalls:
    """A WSGI application before moto's."""

    def __init__(self, aws: Callable[..., Iterable[bytes]]) -> None:
        self._aws = aws

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        """Answers by the path."""
        path = str(environ["PATH_INFO"])
        if not path.startswith(AUTHENTICATE) and path != SIZES:
            return self._aws(environ, start_response)
        return _answer(path, Request(environ))(environ, start_response)


def _answer(path: str, request: Request) -> Response:
    if path.startswith(AUTHENTICATE):
        review = request.get_json()
        return _json(authenticator.review(path.removeprefix(AUTHENTICATE), review))
    if path == SIZES:
        return _json(sizes.history())
    return Response(status=404)


def _json(content: Any) -> Response:
    return Response(json.dumps(content), content_type="application/json")
