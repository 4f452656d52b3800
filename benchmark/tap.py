"""The tap: a transparent reverse proxy on loopback that writes down when each token passed.

Any OpenAI-compatible client works through it as it does without. Of requests to
``/chat/completions`` and ``/completions`` it writes one ledger line each, whatever happens to
them; all others just pass.

What differs from a direct connection: streamed requests ask the server for usage in every event
(``stream_options``, where the client did not set its own), which is taken out again on the way
back; answers are asked for uncompressed; and a server that cannot be reached becomes a 502, one
that stays silent a 504.
"""

from __future__ import annotations

import asyncio
import gc
import json
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, Final
from urllib.parse import urlsplit

import aiohttp
import orjson
from aiohttp import hdrs, web
from multidict import CIMultiDict, CIMultiDictProxy
from yarl import URL

from benchmark.ledger import Ledger, Record
from benchmark.meter import Meter, clean, message

# Just before llmperf itself gives up on a silent server (180 s), so that the line names the cause.
STALL_SECONDS: Final = 175.0

_MEASURED: Final = ("/chat/completions", "/completions")
_LARGEST_REQUEST: Final = 2**28
_CANCELLED: Final = "cancelled by the client"

# RFC 9110, 7.6.1: these belong to one connection and are not passed on.
_HOP_BY_HOP: Final = frozenset(
    {
        "connection",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)


def settle() -> None:
    """Collects garbage now, between two loads, where it disturbs no stream.

    A full collection takes 20 ms and more, in which none is served; what is frozen here makes those
    short that come by themselves.
    """
    gc.unfreeze()
    gc.collect()
    gc.freeze()


@dataclass
class _Exchange:
    """One measured request on its way."""

    variant: str
    case: str
    round: int
    id: str
    sent: float
    start: float
    stream: bool
    meter: Meter
    status: int | None = None
    error: str | None = None
    end: float | None = None
    recorded: bool = False

    def mark_sent(self) -> None:
        """From here on its times are counted: the connection stands, the request goes out."""
        self.sent, self.start = time.time(), time.monotonic()

    def elapsed(self) -> float:
        return time.monotonic() - self.start

    def record(self, run: str) -> Record:
        meter = self.meter
        return Record(
            run=run,
            variant=self.variant,
            case=self.case,
            round=self.round,
            request=self.id,
            sent=self.sent,
            status=self.status,
            # A client that reads a malformed event hangs up: what came first is the cause.
            error=meter.error or self.error,
            prompt_tokens=meter.prompt_tokens,
            output_tokens=meter.output_tokens,
            stream=self.stream,
            per_chunk=meter.per_chunk,
            chunks=tuple((round(at, 6), tokens) for at, tokens in meter.chunks),
            end=round(self.elapsed() if self.end is None else self.end, 6),
        )


class Tap:
    """Stands before one endpoint. ``async with`` serves it; ``url`` is what clients are given.

    ``endpoint`` is the server's base URL, ``/v1`` included. ``stall_seconds`` is how long the
    server may say nothing. ``on_record`` is told of each line. After an OSError of the ledger, such
    as a full disk, it goes on serving and keeps the error in ``failure``.
    """

    def __init__(
        self,
        endpoint: str,
        *,
        run: str,
        variant: str,
        ledger: Ledger,
        stall_seconds: float = STALL_SECONDS,
        on_record: Callable[[Record], None] = lambda record: None,
    ) -> None:
        parts = urlsplit(endpoint)
        self._origin = f"{parts.scheme}://{parts.netloc}"
        self._base = parts.path.rstrip("/")
        self._run = run
        self._variant = variant
        self._ledger = ledger
        self._stall_seconds = stall_seconds
        self._on_record = on_record
        self._case, self._round = "", 0
        self._session: aiohttp.ClientSession | None = None
        self._runner: web.AppRunner | None = None
        self.failure: OSError | None = None

    def label(self, case: str, round: int) -> None:
        """Says what the requests belong to that come from now on."""
        self._case, self._round = case, round

    @property
    def url(self) -> str:
        """Base URL of the endpoint through the tap."""
        assert self._runner is not None
        return f"http://127.0.0.1:{self._runner.addresses[0][1]}{self._base}"

    async def start(self) -> None:
        """Serves on a free port of the loopback. Raises OSError."""
        self._session = aiohttp.ClientSession(
            # A connection each, as llmperf itself does it: one kept alive may be closed by the
            # server in the very moment it is used again.
            connector=aiohttp.TCPConnector(limit=0, force_close=True),
            timeout=aiohttp.ClientTimeout(
                total=None, sock_connect=self._stall_seconds, sock_read=self._stall_seconds
            ),
            auto_decompress=False,
            cookie_jar=aiohttp.DummyCookieJar(),
            trace_configs=[_sending()],
            skip_auto_headers=(
                hdrs.USER_AGENT,
                hdrs.ACCEPT,
                hdrs.ACCEPT_ENCODING,
                hdrs.CONTENT_TYPE,
            ),
        )
        app = web.Application(client_max_size=_LARGEST_REQUEST)
        app.router.add_route("*", "/{path:.*}", self._handle)
        # With handler_cancellation a client that hangs up stops its request upstream, too.
        # A compressed body stays as it is, since its header is passed on with it.
        self._runner = web.AppRunner(
            app,
            handler_cancellation=True,
            auto_decompress=False,
            access_log=None,
            shutdown_timeout=1,
        )
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()

    async def stop(self) -> None:
        """Ends all connections; requests under way are recorded as cancelled."""
        if self._runner is not None:
            await self._runner.cleanup()
        if self._session is not None:
            await self._session.close()

    async def __aenter__(self) -> Tap:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        if request.method == hdrs.METH_POST and request.path.endswith(_MEASURED):
            return await self._measure(request)
        return await self._pass(request)

    def _send(
        self,
        request: web.Request,
        data: Any,
        extra: Mapping[str, str],
        exchange: _Exchange | None = None,
    ) -> aiohttp.client._RequestContextManager:
        assert self._session is not None
        headers = _end_to_end(request.headers)
        headers.popall(hdrs.HOST, None)
        headers.popall(hdrs.CONTENT_LENGTH, None)
        headers.update(extra)
        return self._session.request(
            request.method,
            URL(self._origin + request.raw_path, encoded=True),
            headers=headers,
            data=data,
            allow_redirects=False,
            trace_request_ctx=exchange,
        )

    async def _pass(self, request: web.Request) -> web.StreamResponse:
        data = request.content if request.can_read_body else None
        response: web.StreamResponse | None = None
        try:
            async with self._send(request, data, {}) as upstream:
                response = web.StreamResponse(
                    status=upstream.status,
                    reason=upstream.reason,
                    headers=_end_to_end(upstream.headers),
                )
                await response.prepare(request)
                async for read in upstream.content.iter_any():
                    await response.write(read)
        except (aiohttp.ClientError, asyncio.TimeoutError) as error:
            return self._broken(request, response, error)
        return response

    async def _measure(self, request: web.Request) -> web.StreamResponse:
        body, stream, meter = _prepare(await request.read(), request.path)
        identity = uuid.uuid4().hex
        extra = {"Accept-Encoding": "identity"}
        if "X-Request-Id" not in request.headers:
            extra["X-Request-Id"] = identity  # finds the request in the server's log
        exchange = _Exchange(
            variant=self._variant,
            case=self._case,
            round=self._round,
            id=identity,
            sent=time.time(),
            start=time.monotonic(),
            stream=stream,
            meter=meter,
        )
        response: web.StreamResponse | None = None
        try:
            async with self._send(request, body, extra, exchange) as upstream:
                exchange.status = upstream.status
                if upstream.content_type == "text/event-stream":
                    response = _like(upstream)
                    await response.prepare(request)
                    await self._stream(exchange, upstream, response)
                else:
                    response = await self._whole(exchange, upstream)
        except (aiohttp.ClientConnectionResetError, asyncio.CancelledError):
            exchange.error = _CANCELLED
            raise
        except (aiohttp.ClientError, asyncio.TimeoutError, OSError) as error:
            exchange.error = _reason(error, self._stall_seconds)
            return self._broken(request, response, error)
        finally:
            self._record(exchange)
        return response

    async def _stream(
        self,
        exchange: _Exchange,
        upstream: aiohttp.ClientResponse,
        response: web.StreamResponse,
    ) -> None:
        meter = exchange.meter
        async for read in upstream.content.iter_any():
            at = exchange.elapsed()
            out = meter.feed(read, at)
            if meter.done:
                # On file before the client can know that its answer is complete.
                exchange.end = at
                self._record(exchange)
            if out:
                await response.write(out)
        if exchange.end is None:
            exchange.end = exchange.elapsed()
        rest = meter.close(exchange.end)
        self._record(exchange)
        if rest:
            await response.write(rest)

    async def _whole(
        self, exchange: _Exchange, upstream: aiohttp.ClientResponse
    ) -> web.StreamResponse:
        body = await upstream.read()
        exchange.end = exchange.elapsed()
        _note_body(exchange, body)
        self._record(exchange)
        response = _like(upstream, web.Response(body=body))
        return response

    def _record(self, exchange: _Exchange) -> None:
        if exchange.recorded:
            return
        exchange.recorded = True
        record = exchange.record(self._run)
        try:
            self._ledger.record(record)
        except OSError as error:
            self.failure = error
        self._on_record(record)

    def _broken(
        self, request: web.Request, begun: web.StreamResponse | None, error: BaseException
    ) -> web.StreamResponse:
        if begun is not None and begun.prepared:
            # The client has to see a broken answer too, not one that seems to end well.
            if request.transport is not None:
                request.transport.close()
            return begun
        status = 504 if isinstance(error, asyncio.TimeoutError) else 502
        text = f"tap: {_reason(error, self._stall_seconds)}"
        details = {"message": text, "type": "upstream_error", "param": None, "code": status}
        return web.json_response({"error": details}, status=status)


def _sending() -> aiohttp.TraceConfig:
    """Tells an exchange when its request leaves."""

    async def sent(session: object, context: SimpleNamespace, details: object) -> None:
        exchange = context.trace_request_ctx
        if isinstance(exchange, _Exchange):
            exchange.mark_sent()

    config = aiohttp.TraceConfig()
    config.on_request_headers_sent.append(sent)
    return config


def _prepare(body: bytes, path: str) -> tuple[bytes, bool, Meter]:
    """The body to send on, whether it asks for a stream, and the meter for the answer."""
    null_usage = not path.endswith("/chat/completions")
    asked = _json(body)
    stream = isinstance(asked, dict) and bool(asked.get("stream"))
    own = asked.get("stream_options") or {} if isinstance(asked, dict) else {}
    if not stream or not isinstance(own, dict):
        return body, stream, Meter(strip=False, usage_only=True, null_usage=null_usage)
    # The client's own settings win, whatever they are.
    options = {"include_usage": True, "continuous_usage_stats": True} | own
    meter = Meter(
        strip="continuous_usage_stats" not in own or "include_usage" not in own,
        usage_only=bool(own.get("include_usage")),
        null_usage=null_usage,
    )
    return _with_options(body, asked, options), stream, meter


def _with_options(body: bytes, asked: dict[str, Any], options: dict[str, Any]) -> bytes:
    """The body with other ``stream_options``, its other bytes left as they are where they can be.

    Written anew, a number of many digits would come out as another.
    """
    if "stream_options" in asked:
        return json.dumps(json.loads(body) | {"stream_options": options}).encode()
    return body.rstrip()[:-1] + b',"stream_options":' + orjson.dumps(options) + b"}"


def _note_body(exchange: _Exchange, body: bytes) -> None:
    answer, meter = _json(body), exchange.meter
    if exchange.status != 200:
        said = message(answer) if answer is not None else body[:1000].decode("utf-8", "replace")
        exchange.error = clean(f"HTTP {exchange.status}: {said}").removesuffix(": ")
        return
    if not isinstance(answer, dict):
        exchange.error = clean(f"malformed answer: {body[:1000]!r}")
        return
    if exchange.stream:
        exchange.error = "the answer is not a stream"
    usage = answer.get("usage")
    if isinstance(usage, dict):
        meter.prompt_tokens = usage.get("prompt_tokens")
        meter.output_tokens = usage.get("completion_tokens")


def _json(body: bytes) -> Any:
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError:
        return None


def _end_to_end(headers: CIMultiDictProxy[str]) -> CIMultiDict[str]:
    named = {name.strip().lower() for name in headers.get(hdrs.CONNECTION, "").split(",")}
    return CIMultiDict(
        (name, value) for name, value in headers.items() if name.lower() not in _HOP_BY_HOP | named
    )


def _like(
    upstream: aiohttp.ClientResponse, response: web.StreamResponse | None = None
) -> web.StreamResponse:
    """A response with the server's status and headers, but for the length, which may change."""
    response = response or web.StreamResponse()
    response.set_status(upstream.status, upstream.reason)
    headers = _end_to_end(upstream.headers)
    headers.popall(hdrs.CONTENT_LENGTH, None)
    response.headers.popall(hdrs.CONTENT_TYPE, None)
    response.headers.extend(headers)
    return response


def _reason(error: BaseException, stall_seconds: float) -> str:
    if isinstance(error, asyncio.TimeoutError):
        return f"stalled: nothing came for {stall_seconds:g} s"
    if isinstance(error, aiohttp.ClientConnectorError):
        return clean(f"refused: {error.os_error.strerror or error}")
    if isinstance(error, aiohttp.ClientPayloadError | aiohttp.ServerDisconnectedError | OSError):
        return clean(f"reset: {error}")
    return clean(f"{type(error).__name__}: {error}")
