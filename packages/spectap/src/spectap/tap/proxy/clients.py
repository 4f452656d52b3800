"""The clients' side: reads their requests and has the server answer them, one by one."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from http import HTTPStatus
from typing import cast

import httptools
from typing_extensions import override

from spectap import limits
from spectap.limits import LimitError
from spectap.tap.proxy import http1
from spectap.tap.proxy.http1 import Exchange, Headers, Request
from spectap.tap.proxy.upstream import Upstream, UpstreamConnection


class Proxy:
    """Stands before a server and makes an ``Exchange`` of each request."""

    def __init__(self, upstream: Upstream, exchange: Callable[[Request], Exchange]) -> None:
        self._upstream = upstream
        self._exchange = exchange
        self._clients: set[Client] = set()
        self._listening: asyncio.Server | None = None

    @property
    def url(self) -> str:
        """Base URL of the server through the proxy."""
        assert self._listening is not None
        port = self._listening.sockets[0].getsockname()[1]
        return f"http://127.0.0.1:{port}{self._upstream.path}"

    async def start(self, port: int = 0) -> None:
        """Serves on ``port`` of the loopback, 0 for a free one. Raises OSError."""
        self._listening = await asyncio.get_running_loop().create_server(
            lambda: Client(self._upstream, self._exchange, self._clients),
            "127.0.0.1",
            port,
            # A client that is not let in at once tries again after a second.
            backlog=2048,
        )

    async def stop(self) -> None:
        if self._listening is not None:
            self._listening.close()
        for client in list(self._clients):
            client.hang_up()
        await asyncio.sleep(0)  # the transports close in the loop's next round


class Client(asyncio.Protocol):
    """One client's connection; its requests are answered one after another."""

    write: Callable[[bytes], None]
    """Sends bytes as soon as possible."""

    def __init__(
        self, upstream: Upstream, exchange: Callable[[Request], Exchange], connected: set[Client]
    ) -> None:
        self._upstream = upstream
        self._exchange = exchange
        self._connected = connected
        self._parser = httptools.HttpRequestParser(self)
        self._waiting: deque[Request] = deque()
        self._answering: UpstreamConnection | None = None
        self._refused = False
        self._since_body = self._framing = 0
        """Bytes read since the last part of a body, and all of a message that are no part of it."""
        self.paused = False
        """Whether it reads more slowly than the server sends."""

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self.write = self._transport.write  # not a method, which each chunk would go through
        self._connected.add(self)

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self.hang_up()

    def hang_up(self) -> None:
        """Ends what is under way, here and at the server."""
        self._connected.discard(self)
        self._waiting.clear()
        if self._answering is not None:
            self._answering.cancel()
        self._transport.abort()

    @override
    def data_received(self, data: bytes) -> None:
        if self._refused:
            return
        self._since_body += len(data)
        self._framing += len(data)
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
        elif self._framing > limits.FRAMING:
            too_long = LimitError("the request's framing", limits.FRAMING)
            self._refuse(str(too_long), HTTPStatus.REQUEST_ENTITY_TOO_LARGE)

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

    def on_message_begin(self) -> None:
        self._target, self._headers, self._body = b"", Headers(), bytearray()
        self._in_head, self._since_body, self._framing = True, 0, 0

    def on_url(self, data: bytes) -> None:
        self._target += data

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._in_head:  # trailers come here, too
            self._headers.append((name, value))

    def on_headers_complete(self) -> None:
        self._in_head = False
        expected = http1.value(self._headers, b"expect") or b""
        if expected.lower() == b"100-continue" and self._answering is None:
            self.write(http1.CONTINUE)

    def on_body(self, data: bytes) -> None:
        self._since_body = 0
        self._framing -= len(data)
        self._body += data
        if len(self._body) > limits.REQUEST:
            too_long = LimitError("the request's body", limits.REQUEST)
            self._refuse(str(too_long), HTTPStatus.REQUEST_ENTITY_TOO_LARGE)

    def on_message_complete(self) -> None:
        self._since_body = self._framing = 0
        if self._refused or self._parser.should_upgrade():
            return  # data_received refuses an upgrade
        if refusal := http1.refusal(self._target, self._headers):
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

    def answered(self, *, keep_alive: bool) -> None:
        """Everything is written."""
        self._answering = None
        if keep_alive:
            self._next()
        else:
            self._transport.close()

    def _next(self) -> None:
        if self._answering is None and self._waiting and not self._transport.is_closing():
            exchange = self._exchange(self._waiting.popleft())
            if not self._waiting:
                self._transport.resume_reading()
            self._answering = UpstreamConnection(self._upstream, self, exchange)
            self._answering.start()

    def _refuse(self, reason: str, status: HTTPStatus = HTTPStatus.BAD_REQUEST) -> None:
        """Answers with an error, unless another answer is under way, and reads no more requests."""
        if self._refused:
            return
        self._refused = True
        self._headers, self._body = Headers(), bytearray()
        if self._answering is not None or self._transport.is_closing():
            self._transport.close()
            return
        self.write(http1.encode_error(status, reason, "invalid_request_error", keep_alive=False))
        # Closing here, with a body still on its way, would reset the connection: the client could
        # lose the answer.
        self._transport.write_eof()
