"""A reverse proxy: requests are read whole before they are sent on, answers pass as they come.

It works on asyncio's protocols, with one callback from a read to the write that follows from it,
because it stands in the path of what is measured. Tasks and stream readers between the two would
double the cost of each chunk (docs/decisions/0013-the-proxy-under-the-tap.md).

A request through the proxy differs from a direct one in these ways:

- It has a connection of its own to the server.
- A server that cannot be reached becomes a 502, one that stays silent a 504.
- A message longer than ``spectap.protocol.limits`` allows is broken off or refused.
- A request whose ``Host`` or ``Origin`` is a web page's elsewhere, or whose target is not a path,
  is refused.
- Trailers and 1xx answers are not passed on. The proxy itself answers ``Expect``.
- CONNECT and requests that offer ``Upgrade`` get a 400
  (docs/decisions/0016-less-in-publishing-and-in-the-proxy.md).
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from http import HTTPStatus
from ipaddress import ip_address
from typing import Final, cast
from urllib.parse import urlsplit

import httptools
from typing_extensions import override

from spectap.protocol import access, limits
from spectap.protocol.limits import LimitError
from spectap.records.record import CANCELLED, STALLED
from spectap.tap import http1
from spectap.tap.http1 import Framing, Headers, Request

_BETWEEN_READS: Final = 8
"""The number of parts of answers that are passed on before the loop reads again: 0.5 ms."""
_ALONE_SECONDS: Final = 50e-6
"""Seconds without work after which the loop has waited, so that a part is the first of its burst
and is handled at once."""
LOOPBACK: Final = "127.0.0.1"
_REFUSALS: Final = (HTTPStatus.BAD_REQUEST, HTTPStatus.UNPROCESSABLE_ENTITY)


class Exchange:
    """One request and its answer, which pass unchanged. A subclass may record and change them.

    ``request`` is sent on. Times are those of ``time.monotonic()``.
    """

    def __init__(self, request: Request) -> None:
        self.request = request

    def sent(self, at: float) -> None:
        """The connection is open and the request goes out."""

    def answered(self, status: int, headers: Headers) -> bool:
        """Called with the head of the answer. Returns whether the body's length may change."""
        return False

    def again(self, refusal: bytes) -> bool:
        """Called when the server refuses it. Returns whether to send it in another form."""
        return False

    def passes(self, body: bytes, at: float) -> bytes:
        """Called with a part of the body. Returns what to pass on.

        Raises LimitError where that is too much; the answer is then broken off.
        """
        return body

    def alive(self, heard: float) -> float:
        """The last time at which the server sent a part of the answer.

        ``heard`` is when it last sent anything. Called now and then, to find a stalled server.
        """
        return heard

    def ended(self, at: float) -> bytes:
        """Called when the answer is complete, before the client can know. Returns an addition."""
        return b""

    def broke(self, reason: str, at: float) -> None:
        """Called when no answer came, or only a part of it."""


class Proxy:
    """Stands before the server at a base URL and makes an ``Exchange`` of each request.

    ``stall_seconds`` is how long the server may send nothing, or take to accept a connection.
    ``page`` answers a request in place of the server, or returns None.
    """

    def __init__(
        self,
        url: str,
        stall_seconds: float,
        exchange: Callable[[Request], Exchange],
        page: Callable[[Request], bytes | None] = lambda request: None,
    ) -> None:
        parts = urlsplit(url)
        self.tls = parts.scheme == "https"
        self.address = parts.hostname or "", parts.port or (443 if self.tls else 80)
        self.host = parts.netloc.rpartition("@")[2].encode()
        self.stall_seconds = stall_seconds
        self.exchange, self.page = exchange, page
        self.clients: set[_Client] = set()
        self._path = parts.path.rstrip("/")
        self._listening: asyncio.Server | None = None
        self._work: deque[Callable[[], None]] = deque()
        self._worked = 0.0

    @property
    def url(self) -> str:
        """Base URL of the server through the proxy."""
        assert self._listening is not None
        host, port = self._listening.sockets[0].getsockname()[:2]
        return f"http://{f'[{host}]' if ':' in host else host}:{port}{self._path}"

    async def start(self, port: int = 0, host: str = LOOPBACK) -> None:
        """Serves at the address ``host``, on ``port`` or for 0 on a free one. Raises OSError."""
        self.on_loopback = ip_address(host).is_loopback
        # A client that is not let in at once tries again after a second.
        self._listening = await asyncio.get_running_loop().create_server(
            lambda: _Client(self), host, port, backlog=2048
        )

    def soon(self, at: float, work: Callable[[], None]) -> None:
        """Handles a part that came ``at`` that time, after all parts of the same burst have their
        times.

        Otherwise answers that a server sends in one instant would delay one another's times.
        """
        if not self._work and at - self._worked > _ALONE_SECONDS:
            work()
            self._worked = time.monotonic()
            return
        self._work.append(work)
        if len(self._work) == 1:
            asyncio.get_running_loop().call_soon(self._do_some)

    def _do_some(self) -> None:
        waiting = len(self._work)
        # More than streams can send in one instant: then nothing more is read before it is done.
        count = min(waiting, _BETWEEN_READS) if waiting <= 2 * len(self.clients) else waiting
        try:
            for _ in range(count):
                self._work.popleft()()
        finally:  # the others go on where one failed
            self._worked = time.monotonic()
            if self._work:
                asyncio.get_running_loop().call_soon(self._do_some)

    async def stop(self) -> None:
        if self._listening is not None:
            self._listening.close()
        for client in list(self.clients):
            client.hang_up()
        await asyncio.sleep(0)  # the transports close in the loop's next round


class _Client(asyncio.Protocol):
    """One client's connection; its requests are answered one after another."""

    def __init__(self, proxy: Proxy) -> None:
        self._proxy = proxy
        self._parser = httptools.HttpRequestParser(self)
        self._waiting: deque[Request] = deque()
        self._answering: _Upstream | None = None
        self._refused = self._incomplete = False
        self._timer: asyncio.TimerHandle | None = None
        self._since_body = self._overhead = 0
        """Bytes read since the last part of a body, and bytes of a message outside its body."""
        self.paused = False
        """Whether it reads more slowly than the server sends."""

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self.write = self._transport.write  # not a method, which each chunk would go through
        self._proxy.clients.add(self)

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self.hang_up()

    def hang_up(self) -> None:
        """Ends the request under way, here and at the server."""
        self._proxy.clients.discard(self)
        self._stop_timer()
        self._waiting.clear()
        if self._answering is not None:
            self._answering.cancel()
        self._transport.abort()

    @override
    def pause_writing(self) -> None:
        self.paused = True
        if self._answering is not None:
            self._answering.pause()

    @override
    def resume_writing(self) -> None:
        self.paused = False
        if self._answering is not None:
            self._answering.resume()

    @override
    def data_received(self, data: bytes) -> None:
        if self._refused:
            return
        self._since_body += len(data)
        self._overhead += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            # The parser reads no body after such a head.
            self._refuse("CONNECT and Upgrade are not supported: set the client to plain HTTP/1.1")
        except httptools.HttpParserCallbackError:
            raise
        except httptools.HttpParserError as error:
            self._refuse(f"malformed request: {error}")
        if self._since_body > limits.HEAD:
            too_long = LimitError("the request's head", limits.HEAD)
            self._refuse(str(too_long), HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
        elif self._overhead > limits.FRAMING:
            too_long = LimitError("the request's framing", limits.FRAMING)
            self._refuse(str(too_long), HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
        elif self._incomplete and self._timer is None:
            self._start_timer()

    def on_message_begin(self) -> None:
        self._incomplete = True
        self._target, self._headers, self._body = b"", Headers(), bytearray()
        self._in_head, self._since_body, self._overhead = True, 0, 0

    def on_url(self, data: bytes) -> None:
        self._target += data

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._in_head:  # trailers come here, too
            self._headers.append((name, value))

    def on_headers_complete(self) -> None:
        self._in_head = False
        expected = http1.value(self._headers, b"expect") or b""
        listens = not self._refused and not self._transport.is_closing()
        if expected.lower() == b"100-continue" and self._answering is None and listens:
            self.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def on_body(self, data: bytes) -> None:
        self._since_body = 0
        self._overhead -= len(data)
        self._body += data
        if len(self._body) > limits.REQUEST:
            too_long = LimitError("the request's body", limits.REQUEST)
            self._refuse(str(too_long), HTTPStatus.REQUEST_ENTITY_TOO_LARGE)

    def on_message_complete(self) -> None:
        self._since_body = self._overhead = 0
        self._incomplete = False
        self._stop_timer()
        if self._refused or self._parser.should_upgrade():
            return  # data_received refuses an upgrade
        if refusal := http1.refusal(self._target, self._headers, loopback=self._proxy.on_loopback):
            self._refuse(*refusal)
            return
        passed = http1.end_to_end(self._headers)
        reads_chunks = self._parser.get_http_version() != "1.0"
        self._waiting.append(
            Request(
                method=self._parser.get_method(),
                target=self._target,
                headers=http1.without(passed, b"host", b"content-length", b"expect"),
                body=bytes(self._body),
                reads_chunks=reads_chunks,
                # HTTP/1.0 has it too, by a header of its own that nobody misses.
                keep_alive=reads_chunks and self._parser.should_keep_alive(),
            )
        )
        self._next()
        if self._waiting:  # a client that sends them faster than they are answered has to wait
            self._transport.pause_reading()

    def again(self, exchange: Exchange) -> None:
        """Sends a request again in another form. The client does not see the refusal."""
        self._answering = _Upstream(self._proxy, self, exchange)

    def answered(self, *, keep_alive: bool) -> None:
        """Called when the whole answer is written."""
        self._answering = None
        if keep_alive:
            self._next()
        else:
            self._transport.close()

    def _next(self) -> None:
        while self._answering is None and self._waiting and not self._transport.is_closing():
            request = self._waiting.popleft()
            if not self._waiting:
                self._transport.resume_reading()
            if (page := self._proxy.page(request)) is None:
                self._answering = _Upstream(self._proxy, self, self._proxy.exchange(request))
                return
            self.write(page)
            if not request.keep_alive:
                self._transport.close()

    def _refuse(self, reason: str, status: HTTPStatus = HTTPStatus.BAD_REQUEST) -> None:
        """Answers with an error, unless an answer is under way, and reads no further requests."""
        if self._refused:
            return
        self._refused = True
        self._headers, self._body = Headers(), bytearray()
        if self._answering is not None or self._transport.is_closing():
            self._transport.close()
            return
        self.write(http1.encode_error(status, reason, keep_alive=False))
        # Closing here, with a body still on its way, would reset the connection: the client could
        # lose the answer.
        with contextlib.suppress(OSError):  # it has left
            self._transport.write_eof()
        self._start_timer()

    def _start_timer(self) -> None:
        self._stop_timer()
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(limits.REQUEST_SECONDS, self._expire)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _expire(self) -> None:
        if self._refused:
            self.hang_up()
        reason = f"the request took more than {limits.REQUEST_SECONDS:g} s to come"
        self._refuse(reason, HTTPStatus.REQUEST_TIMEOUT)


class _Upstream(asyncio.Protocol):
    """One request's connection to the server. Bytes after its answer are ignored."""

    def __init__(self, proxy: Proxy, client: _Client, exchange: Exchange) -> None:
        self._proxy = proxy
        self._client = client
        self._exchange = exchange
        self._parser = httptools.HttpResponseParser(self)
        self._since_body = self._overhead = 0  # as a client's
        self._status: int | None = None  # until the head is complete
        self._reason, self._headers = b"", Headers()
        self._body: list[bytes] = []  # what is to be passed on
        self._complete = self._over = False
        self._framing: Framing | None = None
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._heard = self._resumed = 0.0
        self._connecting = asyncio.get_running_loop().create_task(self._connect())

    async def _connect(self) -> None:
        connecting = asyncio.get_running_loop().create_connection(
            lambda: self,
            *self._proxy.address,
            ssl=access.tls() if self._proxy.tls else None,
            happy_eyeballs_delay=0.25,
        )
        try:
            await asyncio.wait_for(connecting, self._proxy.stall_seconds)
        except TimeoutError:
            self._stall()
        except ssl.SSLCertVerificationError as error:
            self._break(HTTPStatus.BAD_GATEWAY, f"refused: {access.distrust(error)}")
        except (OSError, UnicodeError) as error:  # UnicodeError: a name that no host can have
            reason = f"refused: {getattr(error, 'strerror', None) or error}"
            reason = limits.SHORTAGE if limits.short_of_files(error) else reason
            self._break(HTTPStatus.BAD_GATEWAY, reason)

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        if self._over:
            # The client has left. Cancelling the attempt would have leaked its socket.
            self._transport.abort()
            return
        if self._client.paused:
            self.pause()
        message = http1.encode_request(self._exchange.request, self._proxy.host)
        self._heard = time.monotonic()
        self._exchange.sent(self._heard)
        self._transport.write(message)
        self._watch()

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        at = time.monotonic()
        self._proxy.soon(at, partial(self._lost, exc, at))  # what came before may be waiting

    def _lost(self, exc: Exception | None, at: float) -> None:
        del self._parser  # it refers to this connection, which would have to wait for the collector
        if self._over:
            return
        if exc is None and self._framing is not None and self._framing.until_close:
            self._complete = True
            self._pass(at)
        else:
            moment = "in the middle of the answer" if self._framing else "before an answer"
            self._break(HTTPStatus.BAD_GATEWAY, f"reset: {exc or f'closed {moment}'}")

    def cancel(self) -> None:
        """Hangs up, since the client has."""
        if not self._over:
            self._exchange.broke(CANCELLED, time.monotonic())
            self._leave()

    def pause(self) -> None:
        """Reads no more until ``resume``: the client is slower than the server."""
        if self._transport is not None:
            self._transport.pause_reading()

    def resume(self) -> None:
        if self._transport is not None:
            self._resumed = time.monotonic()
            self._transport.resume_reading()

    @override
    def data_received(self, data: bytes) -> None:
        at = time.monotonic()
        self._proxy.soon(at, partial(self._read, data, at))

    def _read(self, data: bytes, at: float) -> None:
        if self._over:  # what comes after the end of an answer, or when nobody listens any more
            return
        wrong = ""
        self._since_body += len(data)
        self._overhead += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserCallbackError:
            raise
        except httptools.HttpParserUpgrade:
            wrong = "malformed answer: it changes the protocol, which the tap never asks for"
        except httptools.HttpParserError as error:
            wrong = f"malformed answer: {error}"
        if self._status is not None:  # a head that comes byte by byte is silence
            self._heard = at
        if self._since_body > limits.HEAD:
            section = "head" if self._status is None else "framing"
            wrong = str(LimitError(f"the answer's {section}", limits.HEAD))
        elif self._overhead > limits.FRAMING:
            wrong = str(LimitError("the answer's framing", limits.FRAMING))
        self._pass(at)
        if wrong:
            self._break(HTTPStatus.BAD_GATEWAY, wrong)

    def on_status(self, data: bytes) -> None:
        if self._status is None:
            self._reason += data

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._status is None:  # trailers come here, too
            self._headers.append((name, value))

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        if self._status is None and status >= HTTPStatus.OK:
            self._status = status

    def on_body(self, data: bytes) -> None:
        self._since_body = 0
        self._overhead -= len(data)
        if not self._complete:
            self._body.append(data)

    def on_message_complete(self) -> None:
        if self._status is None:  # 1xx: the answer is yet to come
            self._reason, self._headers = b"", Headers()
        else:
            self._complete = True

    def _pass(self, at: float) -> None:
        head = b""
        if self._framing is None:
            if self._status is None or (self._status in _REFUSALS and self._retries()):
                return
            changes = self._exchange.answered(self._status, self._headers)
            self._framing = http1.frame(
                self._exchange.request, self._status, self._reason, self._headers, changes=changes
            )
            head = self._framing.head
        body = b"" if self._framing.bodiless else b"".join(self._body)
        self._body.clear()
        if body:
            try:
                body = self._exchange.passes(body, at)
            except LimitError as error:
                self._break(HTTPStatus.BAD_GATEWAY, str(error))
                return
        # The parser waits for the body that the headers of a bodiless answer announce.
        complete = self._complete or self._framing.bodiless
        if complete:
            body += self._exchange.ended(at)
        out = head + self._framing.encode(body, last=complete)
        if out:
            self._client.write(out)
        if complete:
            self._leave()
            self._client.answered(keep_alive=self._exchange.request.keep_alive)

    def _retries(self) -> bool:
        """Whether a refusal is held back: it is not read yet, or the request is sent again."""
        refusal = b"".join(self._body)
        ends = http1.value(self._headers, b"content-length") or http1.value(
            self._headers, b"transfer-encoding"
        )
        if not self._complete:
            return bool(ends) and len(refusal) <= limits.HEAD
        if not self._exchange.again(refusal):
            return False
        self._leave()
        self._client.again(self._exchange)
        return True

    def _watch(self) -> None:
        """Checks for a silent server, at the earliest time at which it can be one."""
        limit = self._proxy.stall_seconds
        alive = max(self._exchange.alive(self._heard), self._resumed)
        remaining = limit if self._client.paused else alive + limit - time.monotonic()
        if remaining > 0:
            self._timer = asyncio.get_running_loop().call_later(remaining, self._watch)
        else:
            self._stall()

    def _stall(self) -> None:
        limit = self._proxy.stall_seconds
        but = " but keep-alives" if self._heard + limit / 2 > time.monotonic() else ""
        self._break(HTTPStatus.GATEWAY_TIMEOUT, f"{STALLED}: nothing{but} came for {limit:g} s")

    def _break(self, status: HTTPStatus, reason: str) -> None:
        if self._over:
            return
        self._exchange.broke(reason, time.monotonic())
        self._leave()
        # A client that has a part of the answer must see that it is broken.
        keep_alive = self._framing is None and self._exchange.request.keep_alive
        if self._framing is None:
            self._client.write(http1.encode_error(status, reason, keep_alive=keep_alive))
        self._client.answered(keep_alive=keep_alive)

    def _leave(self) -> None:
        self._over = True
        if self._timer is not None:
            self._timer.cancel()
        if self._transport is not None:
            self._transport.abort()
