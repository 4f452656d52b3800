"""The server's side: a connection for each request. Its answer is passed on as it comes."""

from __future__ import annotations

import asyncio
import time
from http import HTTPStatus
from typing import TYPE_CHECKING, cast
from urllib.parse import urlsplit

import httptools
from typing_extensions import override

from spectap import limits
from spectap.limits import LimitError
from spectap.record import CANCELLED, STALLED
from spectap.tap.proxy import http1
from spectap.tap.proxy.http1 import Exchange, Framing, Headers

if TYPE_CHECKING:
    from spectap.tap.proxy.clients import Client


class Upstream:
    """The server that requests are sent to, given by its base URL.

    ``stall_seconds`` is how long it may send nothing, or take to accept a connection.
    """

    def __init__(self, url: str, stall_seconds: float) -> None:
        parts = urlsplit(url)
        self.tls = parts.scheme == "https"
        self.address = parts.hostname or "", parts.port or (443 if self.tls else 80)
        self.host = parts.netloc.rpartition("@")[2].encode()
        self.path = parts.path.rstrip("/")
        self.stall_seconds = stall_seconds
        self.heard = 0.0
        """When anything last came from the server (``time.monotonic()``)."""


class _Answer:
    """What has come of an answer. Whatever follows it is ignored."""

    def __init__(self) -> None:
        parser = httptools.HttpResponseParser(self)
        self.feed = parser.feed_data
        self._status_code = parser.get_status_code
        self._parts: list[bytes] = []
        self.since_body = self.framing = 0
        """Bytes read since the last part of the body, and all that are no part of it."""
        self.status: int | None = None  # until the head is complete
        self.reason, self.headers = b"", Headers()
        self.complete = False

    def take(self) -> bytes:
        """What has come of the body since the last call."""
        body = b"".join(self._parts)
        self._parts.clear()
        return body

    def on_status(self, data: bytes) -> None:
        if self.status is None:
            self.reason += data

    def on_header(self, name: bytes, value: bytes) -> None:
        if self.status is None:  # trailers come here, too
            self.headers.append((name, value))

    def on_headers_complete(self) -> None:
        status = self._status_code()
        if self.status is None and status >= HTTPStatus.OK:
            self.status = status

    def on_body(self, data: bytes) -> None:
        self.since_body = 0
        self.framing -= len(data)
        if not self.complete:
            self._parts.append(data)

    def on_message_complete(self) -> None:
        if self.status is None:  # 1xx: the answer is yet to come
            self.reason, self.headers = b"", Headers()
        else:
            self.complete = True


class UpstreamConnection(asyncio.Protocol):
    """One request's connection to the server; it calls ``client`` when it is over."""

    def __init__(self, upstream: Upstream, client: Client, exchange: Exchange) -> None:
        self._upstream = upstream
        self._client = client
        self._exchange = exchange
        self._answer = _Answer()
        self._framing: Framing | None = None
        self._over = False
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._heard = 0.0

    def start(self) -> None:
        self._connecting = asyncio.get_running_loop().create_task(self._connect())

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
            self._heard = time.monotonic()
            self._transport.resume_reading()

    async def _connect(self) -> None:
        connecting = asyncio.get_running_loop().create_connection(
            lambda: self,
            *self._upstream.address,
            ssl=self._upstream.tls or None,
            happy_eyeballs_delay=0.25,
        )
        try:
            await asyncio.wait_for(connecting, self._upstream.stall_seconds)
        except TimeoutError:
            self._stall()
        except (OSError, UnicodeError) as error:  # UnicodeError: a name that no host can have
            reason = getattr(error, "strerror", None) or error
            self._break(HTTPStatus.BAD_GATEWAY, f"refused: {reason}")

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        if self._over:
            # The client has left. Cancelling the attempt would have leaked its socket.
            self._transport.abort()
            return
        if self._client.paused:
            self.pause()
        message = http1.encode_request(self._exchange.request, self._upstream.host)
        self._heard = time.monotonic()
        self._exchange.sent(self._heard)
        self._transport.write(message)
        self._watch()

    @override
    def data_received(self, data: bytes) -> None:
        if self._over:  # TLS delivers what it has read, even when nobody listens any more
            return
        at = self._heard = time.monotonic()
        answer = self._answer
        wrong = ""
        answer.since_body += len(data)
        answer.framing += len(data)
        try:
            answer.feed(data)
        except httptools.HttpParserCallbackError:
            raise
        except httptools.HttpParserUpgrade:
            wrong = "malformed answer: it changes the protocol, which the tap never asks for"
        except httptools.HttpParserError as error:
            wrong = f"malformed answer: {error}"
        if answer.since_body > limits.HEAD:
            section = "head" if answer.status is None else "framing"
            wrong = str(LimitError(f"the answer's {section}", limits.HEAD))
        elif answer.framing > limits.FRAMING:
            wrong = str(LimitError("the answer's framing", limits.FRAMING))
        self._pass(at)
        if wrong:
            self._break(HTTPStatus.BAD_GATEWAY, wrong)

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        if self._over:
            return
        if exc is None and self._framing is not None and self._framing.until_close:
            self._answer.complete = True
            self._pass(time.monotonic())
        else:
            moment = "in the middle of the answer" if self._framing else "before an answer"
            self._break(HTTPStatus.BAD_GATEWAY, f"reset: {exc or f'closed {moment}'}")

    def _pass(self, at: float) -> None:
        self._upstream.heard = at
        head = b""
        if self._framing is None:
            if self._answer.status is None:
                return
            headers, request = self._answer.headers, self._exchange.request
            changes = self._exchange.answered(self._answer.status, headers)
            self._framing = http1.frame(
                request, self._answer.status, self._answer.reason, headers, changes=changes
            )
            head = self._framing.head
        body = b"" if self._framing.bodiless else self._answer.take()
        if body:
            try:
                body = self._exchange.passes(body, at)
            except LimitError as error:
                self._break(HTTPStatus.BAD_GATEWAY, str(error))
                return
        # The parser waits for the body that the headers of a bodiless answer announce.
        complete = self._answer.complete or self._framing.bodiless
        if complete:
            body += self._exchange.ended(at)
        out = head + self._framing.encode(body, last=complete)
        if out:
            self._client.write(out)
        if complete:
            self._leave()
            self._client.answered(keep_alive=self._framing.keep_alive)

    def _watch(self) -> None:
        """Checks for a silent server, as soon as it can have been silent for too long."""
        limit = self._upstream.stall_seconds
        remaining = limit if self._client.paused else self._heard + limit - time.monotonic()
        if remaining > 0:
            self._timer = asyncio.get_running_loop().call_later(remaining, self._watch)
        else:
            self._stall()

    def _stall(self) -> None:
        limit = self._upstream.stall_seconds
        self._break(HTTPStatus.GATEWAY_TIMEOUT, f"{STALLED}: nothing came for {limit:g} s")

    def _break(self, status: HTTPStatus, reason: str) -> None:
        if self._over:
            return
        self._exchange.broke(reason, time.monotonic())
        self._leave()
        # A client that has a part of the answer must see that it is broken.
        keep_alive = self._framing is None and self._exchange.request.keep_alive
        if self._framing is None:
            kind = "upstream_error"
            self._client.write(http1.encode_error(status, reason, kind, keep_alive=keep_alive))
        self._client.answered(keep_alive=keep_alive)

    def _leave(self) -> None:
        self._over = True
        if self._timer is not None:
            self._timer.cancel()
        if self._transport is not None:
            self._transport.abort()
