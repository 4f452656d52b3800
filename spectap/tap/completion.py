"""A completion on its way through the tap: what the tap asks for, and what it records."""

from __future__ import annotations

import json
import math
import time
import uuid
from collections.abc import Callable
from typing import Any, NamedTuple
from urllib.parse import unquote

import orjson
from typing_extensions import override

from spectap import limits
from spectap.names import BEYOND_HEADER, CLASS_HEADER, DUE_HEADER, PROMPT_HEADER, WARM_UP
from spectap.record import Record
from spectap.tap.proxy import http1
from spectap.tap.proxy.http1 import Exchange, Headers, Request
from spectap.tap.token_meter import Meter, clean, message

_PROMPT, _CLASS, _DUE, _BEYOND = _TAP_HEADERS = tuple(
    name.lower().encode() for name in (PROMPT_HEADER, CLASS_HEADER, DUE_HEADER, BEYOND_HEADER)
)
"""The headers that are meant for the tap and not for the server."""


class Label(NamedTuple):
    """What a request belongs to."""

    run: str
    variant: str
    case: str
    round: int
    attempt: int = 1
    load: str = ""


class Completion(Exchange):
    """A request to ``/chat/completions`` or ``/completions``.

    ``on_record`` receives its record once: when everything is known, and before the client can know
    that the answer is complete.
    """

    def __init__(self, request: Request, label: Label, on_record: Callable[[Record], None]) -> None:
        prepared = _prepare(request)
        self._asked_stream, self._tools = prepared.stream, prepared.tools
        self._meter = prepared.meter
        super().__init__(request)
        request.body = prepared.body
        beyond = http1.value(request.headers, _BEYOND) is not None
        self._label = label._replace(round=WARM_UP, attempt=1) if beyond else label
        self._on_record = on_record
        self.id = uuid.uuid4().hex
        self._sent, self._start = time.time(), time.monotonic()
        self._came = self._sent
        self._status: int | None = None
        self._streamed = self._recorded = False
        self._answer = bytearray()
        self._passed = 0
        self._prompt, self._class = (_text(request.headers, name) for name in (_PROMPT, _CLASS))
        self._due = _due(request.headers)
        request.headers = http1.without(request.headers, b"accept-encoding", *_TAP_HEADERS)
        request.headers.append((b"Accept-Encoding", b"identity"))
        if http1.value(request.headers, b"x-request-id") is None:
            # With it, the request can be found in the server's log.
            request.headers.append((b"X-Request-Id", self.id.encode()))

    @override
    def sent(self, at: float) -> None:
        self._sent, self._start = time.time(), at

    @override
    def answered(self, status: int, headers: Headers) -> bool:
        self._status = status
        kind = (http1.value(headers, b"content-type") or b"").partition(b";")[0]
        self._streamed = kind.strip().lower() == b"text/event-stream"
        return self._streamed

    @override
    def passes(self, body: bytes, at: float) -> bytes:
        self._passed += len(body)
        if not self._streamed:
            limits.check("the answer", self._passed, limits.ANSWER)
            self._answer += body
            return body
        limits.check("the stream", self._passed, limits.STREAM)
        out = self._meter.feed(body, at - self._start)
        if self._meter.done:
            self._record(None, at)
        return out

    @override
    def ended(self, at: float) -> bytes:
        if self._streamed:
            held_back = self._meter.close(at - self._start)
            self._record(None, at)
            return held_back
        self._record(self._read_answer(), at)
        return b""

    @override
    def broke(self, reason: str, at: float) -> None:
        self._record(clean(reason), at)

    def _read_answer(self) -> str | None:
        """Counts the usage of an answer that was not streamed. Returns what is wrong with it."""
        body = bytes(self._answer)
        answer = _json(body)
        if self._status != 200:
            text = message(answer) if answer is not None else body[:1000].decode("utf-8", "replace")
            return clean(f"HTTP {self._status}: {text}").removesuffix(": ")
        if not isinstance(answer, dict):
            return clean(f"malformed answer: {body[:1000]!r}")
        usage = answer.get("usage")
        if isinstance(usage, dict):
            self._meter.count(usage)
        return "the answer is not a stream" if self._asked_stream else None

    def _record(self, error: str | None, at: float) -> None:
        if self._recorded:
            return
        self._recorded = True
        meter = self._meter
        self._on_record(
            Record(
                **self._label._asdict(),
                request=self.id,
                sent=self._sent,
                status=self._status,
                # A client that reads a malformed event hangs up. The event is the cause.
                error=meter.error or error,
                prompt_tokens=meter.prompt_tokens,
                output_tokens=meter.output_tokens,
                stream=self._asked_stream,
                per_chunk=meter.per_chunk,
                chunks=tuple((round(offset, 6), tokens) for offset, tokens in meter.chunks),
                end=round(at - self._start, 6),
                prompt=self._prompt,
                prompt_class=self._class,
                due=self._due,
                came=None if self._due is None else self._came,
                tools=self._tools,
            )
        )


class _Prepared(NamedTuple):
    body: bytes
    """What is sent on."""
    stream: bool
    """Whether it asks for a stream."""
    tools: bool
    """Whether it offers tools."""
    meter: Meter
    """For the answer."""


def _prepare(request: Request) -> _Prepared:
    """What to send on: a request for a stream asks for usage in every event."""
    null_usage = not request.target.partition(b"?")[0].endswith(b"/chat/completions")
    body = _json(request.body)
    stream = isinstance(body, dict) and bool(body.get("stream"))
    tools = isinstance(body, dict) and bool(body.get("tools"))
    meter = Meter(strip=False, usage_only=True, null_usage=null_usage)
    unchanged = _Prepared(request.body, stream, tools, meter)
    if not stream:
        return unchanged
    options = body.get("stream_options")
    if options is None:
        options = {}
    elif not isinstance(options, dict):
        return unchanged
    try:
        changed = _with_options(
            request.body,
            body,
            # What the client sets itself wins.
            {"include_usage": True, "continuous_usage_stats": True} | options,
        )
    except RecursionError:  # nested too deeply for Python's own parser
        return unchanged
    meter = Meter(
        strip="continuous_usage_stats" not in options or "include_usage" not in options,
        usage_only=bool(options.get("include_usage")),
        null_usage=null_usage,
    )
    return _Prepared(changed, stream, tools, meter)


def _with_options(body: bytes, fields: dict[str, Any], options: dict[str, Any]) -> bytes:
    """The body with other ``stream_options``; its other bytes stay: numbers keep their digits."""
    if "stream_options" in fields:
        return json.dumps(json.loads(body) | {"stream_options": options}).encode()
    return body.rstrip()[:-1] + b',"stream_options":' + orjson.dumps(options) + b"}"


def _text(headers: Headers, name: bytes) -> str:
    return unquote((http1.value(headers, name) or b"").decode("ascii", "replace"))


def _due(headers: Headers) -> float | None:
    """When the request was due, in Unix seconds; None where the client does not say it."""
    try:
        due = float(http1.value(headers, _DUE) or "")
    except ValueError:
        return None
    return due if math.isfinite(due) else None


def _json(body: bytes) -> Any:
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError:
        return None
