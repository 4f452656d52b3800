"""The clients' side: reads their requests, and has each answered through an ``Upstream``."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from http import HTTPStatus
from typing import Final, cast

import httptools
from typing_extensions import override

from benchmark.tap.proxy import http1
from benchmark.tap.proxy.exchange import Exchange
from benchmark.tap.proxy.http1 import Headers, Request
from benchmark.tap.proxy.upstream import Server, Upstream

_LARGEST_REQUEST: Final = 2**28


class Proxy:
    """Stands before a server and makes an ``Exchange`` of each request."""

    def __init__(self, server: Server, exchange: Callable[[Request], Exchange]) -> None:
        self._server = server
        self._exchange = exchange
        self._clients: set[_Client] = set()
        self._listening: asyncio.Server | None = None

    @property
    def url(self) -> str:
        """Base URL of the server through the proxy."""
        assert self._listening is not None
        port = self._listening.sockets[0].getsockname()[1]
        return f"http://127.0.0.1:{port}{self._server.path}"

    async def start(self, port: int = 0) -> None:
        """Serves on ``port`` of the loopback, 0 for a free one. Raises OSError."""
        self._listening = await asyncio.get_running_loop().create_server(
            lambda: _Client(self._server, self._exchange, self._clients),
            "127.0.0.1",
            port,
            # A client that is not let in at once tries again after a second.
            backlog=2048,
        )

    async def stop(self) -> None:
        """Ends all connections."""
        if self._listening is not None:
            self._listening.close()
        for client in list(self._clients):
            client.hang_up()
        await asyncio.sleep(0)  # the transports close in the loop's next round


class _Client(asyncio.Protocol):
    """One client's connection; its requests are answered one after another."""

    def __init__(
        self, server: Server, exchange: Callable[[Request], Exchange], connected: set[_Client]
    ) -> None:
        self._server = server
        self._exchange = exchange
        self._connected = connected
        self._parser = httptools.HttpRequestParser(self)
        self._waiting: deque[Request] = deque()
        self._upstream: Upstream | None = None
        self.paused = False

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._connected.add(self)

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self.hang_up()

    def hang_up(self) -> None:
        """Ends what is under way, here and at the server."""
        self._connected.discard(self)
        self._waiting.clear()
        if self._upstream is not None:
            self._upstream.cancel()
        self._transport.abort()

    @override
    def data_received(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            self._decline_upgrade(data[upgrade.args[0] :])
        except httptools.HttpParserCallbackError:
            raise
        except httptools.HttpParserError as error:
            self._refuse(HTTPStatus.BAD_REQUEST, f"malformed request: {error}")

    @override
    def pause_writing(self) -> None:
        self.paused = True
        if self._upstream is not None:
            self._upstream.pause()

    @override
    def resume_writing(self) -> None:
        self.paused = False
        if self._upstream is not None:
            self._upstream.resume()

    # What the parser calls.

    def on_message_begin(self) -> None:
        self._target, self._headers, self._body = b"", Headers(), bytearray()
        self._in_head = True

    def on_url(self, part: bytes) -> None:
        self._target += part

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._in_head:  # trailers come here, too
            self._headers.append((name, value))

    def on_headers_complete(self) -> None:
        self._in_head = False
        if self._parser.should_upgrade():
            return
        expected = http1.value(self._headers, b"expect") or b""
        if expected.lower() == b"100-continue" and self._upstream is None:
            self.write(http1.CONTINUE)

    def on_body(self, part: bytes) -> None:
        self._body += part
        if len(self._body) > _LARGEST_REQUEST:
            limit = f"the request has more than {_LARGEST_REQUEST} bytes"
            self._refuse(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, limit)

    def on_message_complete(self) -> None:
        if self._parser.should_upgrade():
            return  # the parser goes no further than the head; data_received is told
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

    def _decline_upgrade(self, rest: bytes) -> None:
        """Reads the request again as one that offers nothing; ``rest`` is what came after its head.

        A CONNECT cannot be declined so.
        """
        method = self._parser.get_method()
        if method == b"CONNECT":
            self._refuse(HTTPStatus.BAD_REQUEST, "CONNECT is for proxies of another kind")
            return
        head = http1.encode_head(method, self._target, http1.without_upgrade(self._headers))
        self._parser = httptools.HttpRequestParser(self)
        self.data_received(head + rest)

    # What the upstream calls.

    def write(self, data: bytes) -> None:
        self._transport.write(data)

    def answered(self, *, keep_alive: bool) -> None:
        self._upstream = None
        if keep_alive:
            self._next()
        else:
            self._transport.close()

    def _next(self) -> None:
        if self._upstream is None and self._waiting and not self._transport.is_closing():
            exchange = self._exchange(self._waiting.popleft())
            self._upstream = Upstream(self._server, self, exchange)
            self._upstream.start()

    def _refuse(self, status: HTTPStatus, reason: str) -> None:
        if self._upstream is None and not self._transport.is_closing():
            kind = "invalid_request_error"
            self.write(http1.encode_error(status, f"tap: {reason}", kind, keep_alive=False))
        self._transport.close()
