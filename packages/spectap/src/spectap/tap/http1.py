"""HTTP/1.1 messages as a proxy passes them on. httptools parses; this module writes."""

import json
import re
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

# In the order and the spelling they came in; a name may come more than once.
Headers = list[tuple[bytes, bytes]]

# RFC 9110, 7.6.1: these belong to one connection and are not passed on.
_HOP_BY_HOP: Final = frozenset(
    b"connection keep-alive proxy-authenticate proxy-authorization proxy-connection te trailer "
    b"transfer-encoding upgrade".split()
)
_LOOPBACK: Final = rb"(localhost|127(\.\d{1,3}){3}|\[::1\])(:\d*)?"
_HOST: Final = re.compile(b"(?i)" + _LOOPBACK)
# No name of a web page's: those have a dot.
_NEAR: Final = re.compile(rb"(?i)(\d+(\.\d+){3}|\[[\da-f:.]+\]|[^.:/@\[\]]+)(:\d*)?")
_ORIGIN: Final = re.compile(b"(?i)https?://" + _LOOPBACK)
_WITH_BODY: Final = frozenset({b"POST", b"PUT", b"PATCH"})
_BODILESS: Final = (HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED)


@dataclass
class Request:
    """A complete request."""

    method: bytes
    target: bytes
    """Path and query as they came, still percent-encoded."""
    headers: Headers
    """Headers for the server."""
    body: bytes
    reads_chunks: bool = True
    """Whether the client speaks HTTP/1.1."""
    keep_alive: bool = True
    """Whether the client may send another request on its connection. A client that reads no chunks
    may not: it may not see where the answer ends."""


@dataclass(frozen=True)
class Framing:
    """The framing of an answer. It depends on what came and on what the client can read."""

    head: bytes
    """Written before everything else."""
    bodiless: bool
    """Whether nothing follows the head, whatever its headers say."""
    until_close: bool
    """Whether the server ends the body by closing the connection."""
    chunked: bool
    """Whether the client gets the body in chunks."""

    def encode(self, data: bytes, last: bool) -> bytes:
        if not self.chunked:
            return data
        # An empty chunk would end the body.
        chunk = b"%x\r\n%b\r\n" % (len(data), data) if data else b""
        return chunk + b"0\r\n\r\n" if last else chunk


def frame(
    request: Request, status: int, reason: bytes, headers: Headers, *, changes: bool
) -> Framing:
    """The framing of an answer with these headers; ``changes``: its body may change its length."""
    framed = (b"content-length", b"transfer-encoding")
    until_close = all(value(headers, name) is None for name in framed)
    passed = end_to_end(headers)
    if changes:
        passed = without(passed, b"content-length")
    # Of what is passed on: Connection may list even this header, which then ends here.
    length = value(passed, b"content-length")
    bodiless = request.method == b"HEAD" or status in _BODILESS
    open_ended = length is None and not bodiless
    chunked = open_ended and request.reads_chunks
    if chunked:
        passed.append((b"Transfer-Encoding", b"chunked"))
    if not request.keep_alive:
        passed.append((b"Connection", b"close"))
    return Framing(
        head=b"HTTP/1.1 %d %b\r\n" % (status, reason) + _lines(passed),
        bodiless=bodiless,
        until_close=until_close and not bodiless,
        chunked=chunked,
    )


def value(headers: Headers, name: bytes) -> bytes | None:
    """The first header of that name, given in lower case; None without one."""
    return next((value for key, value in headers if key.lower() == name), None)


def without(headers: Headers, *names: bytes) -> Headers:
    """The headers without those of these names, given in lower case."""
    return [(name, value) for name, value in headers if name.lower() not in names]


def end_to_end(headers: Headers) -> Headers:
    """The headers without those for this one connection."""
    named = b",".join(value for name, value in headers if name.lower() == b"connection")
    listed = {name.strip().lower() for name in named.split(b",")}
    return without(headers, *_HOP_BY_HOP, *listed)


def refusal(target: bytes, headers: Headers, *, loopback: bool) -> tuple[str, HTTPStatus] | None:
    """The reason to refuse a request on a loopback server, with its status; None without one.

    ``loopback``: the server listens on loopback and not to the network.

    ``Host``: through a foreign name that resolves to loopback, a web page in the user's browser
    could read the server's answers. ``Origin``: any web page could make the server work.
    """
    if not target.startswith(b"/"):
        text = "the target must be a path: set the tap as the base URL, and not as a proxy"
        return text, HTTPStatus.BAD_REQUEST
    allowed = _HOST if loopback else _NEAR
    if not all(allowed.fullmatch(host) for key, host in headers if key.lower() == b"host"):
        names = "localhost or 127.0.0.1" if loopback else "an IP address or a name without a dot"
        return f"the host must be {names}", HTTPStatus.MISDIRECTED_REQUEST
    if not all(_ORIGIN.fullmatch(origin) for key, origin in headers if key.lower() == b"origin"):
        return "a web page must be one of localhost or 127.0.0.1", HTTPStatus.FORBIDDEN
    return None


def encode_request(request: Request, host: bytes) -> bytes:
    """The whole message, for a connection of its own."""
    headers = [(b"Host", host), *request.headers, (b"Connection", b"close")]
    if request.body or request.method in _WITH_BODY:
        headers.append((b"Content-Length", b"%d" % len(request.body)))
    head = b"%b %b HTTP/1.1\r\n" % (request.method, request.target)
    return head + _lines(headers) + request.body


def encode_error(status: HTTPStatus, message: str, *, keep_alive: bool) -> bytes:
    """A whole answer with an error of the tap's, in the form OpenAI's clients read."""
    kind = "upstream_error" if status >= 500 else "invalid_request_error"
    details = {"message": f"tap: {message}", "type": kind, "param": None, "code": status.value}
    body = json.dumps({"error": details}).encode()
    return encode_answer(status, "application/json", body, keep_alive=keep_alive)


def encode_answer(status: HTTPStatus, kind: str, body: bytes, *, keep_alive: bool) -> bytes:
    headers = [(b"Content-Type", kind.encode()), (b"Content-Length", b"%d" % len(body))]
    if not keep_alive:
        headers.append((b"Connection", b"close"))
    return b"HTTP/1.1 %d %b\r\n" % (status.value, status.phrase.encode()) + _lines(headers) + body


def _lines(headers: Headers) -> bytes:
    return b"".join(b"%b: %b\r\n" % header for header in headers) + b"\r\n"
