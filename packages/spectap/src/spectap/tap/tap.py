"""The tap: a transparent reverse proxy on loopback that records when each token passed.

Any OpenAI-compatible client works through it as it does without it. The tap writes one ledger line
for each complete request to ``/chat/completions`` and ``/completions``, whatever becomes of it. All
other requests pass unrecorded.

Besides what ``spectap.tap.proxy`` lists, a request through the tap differs from a direct one in
three ways. A streamed request asks the server for usage in every event (``stream_options``, where
the client did not set them), and the tap removes that usage from the answer. All answers are
requested uncompressed. The headers that describe a request to the ledger (``spectap.names``) end
here.
"""

import asyncio
import contextlib
import gc
import resource
import time
import uuid
from collections import Counter
from collections.abc import Callable
from http import HTTPStatus
from typing import Any, Final, NamedTuple, Self
from urllib.parse import unquote

from typing_extensions import override

from spectap.loop_lag import Lag
from spectap.names import TAP_HEADERS, WARM_UP
from spectap.protocol import access, events, limits
from spectap.records.journal import Journal
from spectap.records.record import Record
from spectap.tap import http1, speculation
from spectap.tap.form import Server, prepare
from spectap.tap.http1 import Headers, Request
from spectap.tap.proxy import LOOPBACK, Exchange, Proxy
from spectap.wording import masked

# llmperf gives up on a silent server after 180 s. The tap does so before, and records the cause.
STALL_SECONDS: Final = 175.0

_OPEN_FILES: Final = 65536
"""File descriptors to allow. A request through a tap takes two. An open loop that a server cannot
keep up with may have thousands, and many systems allow a process 1,024 unless it asks for more."""

_COMPLETION_PATHS: Final = (b"/chat/completions", b"/completions")

_PATHS: Final = 100
"""The most paths that are counted, since a client may send any number."""

_SECRET_HEADERS: Final = (b"authorization", b"api-key", b"x-api-key")
_PROMPT, _CLASS, _DUE, _BEYOND, _LAG = _TAP_HEADERS = tuple(
    name.lower().encode() for name in TAP_HEADERS
)


class Label(NamedTuple):
    """The turn that a request belongs to."""

    run: str
    variant: str
    case: str
    round: int
    attempt: int = 1
    load: str = ""
    launch: int = 0


class Completion(Exchange):
    """A request to ``/chat/completions`` or ``/completions``.

    The tap gets its record once, before the client can know that the answer is complete.
    """

    def __init__(self, request: Request, label: Label, tap: "Tap") -> None:
        super().__init__(request)
        body = events.parsed(request.body)
        fields = body if isinstance(body, dict) else {}
        self._asked_stream, self._tools = bool(fields.get("stream")), bool(fields.get("tools"))
        self._tap, self._form, self._location = tap, tap.server.form, b""
        self._original = request.target, request.body, fields
        request.body, self._meter = prepare(*self._original, self._form)
        beyond = http1.value(request.headers, _BEYOND) is not None
        self._model, choices = fields.get("model"), fields.get("n")
        self._choices = choices if isinstance(choices, int) and 1 < choices <= 2**16 else 1
        self._label = label._replace(round=WARM_UP, attempt=1) if beyond else label
        self.id = uuid.uuid4().hex
        self._sent, self._start = time.time(), time.monotonic()
        self._came = self._sent
        self._status: int | None = None
        self._streamed = self._recorded = False
        self._answer = bytearray()
        self._passed = 0
        self._prompt, self._class = (_text(request.headers, name) for name in (_PROMPT, _CLASS))
        self._due = _seconds(request.headers, _DUE)
        self._drivers_lag = _seconds(request.headers, _LAG) or 0.0
        self._mark = tap.lag.mark()
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
        self._location = http1.value(headers, b"location") or b""
        kind = (http1.value(headers, b"content-type") or b"").partition(b";")[0]
        encoding = http1.value(headers, b"content-encoding") or b"identity"
        if encoding.strip().lower() != b"identity":
            name = encoding.decode("ascii", "replace")
            self._meter.ending.fail(f"compressed: the answer came as {name}, not as asked for")
        elif kind.strip().lower() == b"text/event-stream":
            self._streamed = True
        if self._streamed and status == HTTPStatus.OK:
            self._tap.server.form, self._tap.server.accepted = self._form, True
        return self._streamed

    @override
    def again(self, refusal: bytes) -> bool:
        sent, fields = self.request.body, self._original[-1]
        while form := self._tap.server.after(self._form, refusal, fields):
            self._form = form
            self.request.body, self._meter = prepare(*self._original, form)
            if self.request.body != sent:
                return True
        return False

    @override
    def passes(self, body: bytes, at: float) -> bytes:
        self._passed += len(body)
        if not self._streamed:
            limits.check("the answer", self._passed, limits.ANSWER)
            self._answer += body
            return body
        limits.check("the stream", self._passed, limits.STREAM)
        out = self._meter.feed(body, at - self._start)
        if self._meter.ending.done:
            self._record(self._meter.problem(), at)
        return out

    @override
    def alive(self, heard: float) -> float:
        # A stream's comments and empty events may go on while nothing is generated.
        return max(self._start, self.last_token) if self._streamed else heard

    @property
    def last_token(self) -> float:
        """The time of the last tokens, by ``time.monotonic()``; 0 without any."""
        return self._start + self._meter.chunks[-1][0] if self._meter.chunks else 0.0

    @override
    def ended(self, at: float) -> bytes:
        if self._streamed:
            held_back = self._meter.close(at - self._start)
            self._record(self._meter.problem(), at)
            return held_back
        self._record(self._read_answer(), at)
        return b""

    @override
    def broke(self, reason: str, at: float) -> None:
        self._record(events.clean(reason), at)

    def _read_answer(self) -> str | None:
        """Reads the usage of an answer that was not streamed. Returns its error."""
        body = bytes(self._answer)
        answer = events.parsed(body)
        error = events.error_of(answer) if isinstance(answer, dict) else None
        if error or self._status != 200:
            text = error or body[:1000].decode("utf-8", "replace")
            if self._location:
                text = f"redirects to {self._location.decode('latin-1')}, which is not followed"
            return events.clean(f"HTTP {self._status}: {text}").removesuffix(": ")
        if not isinstance(answer, dict):
            return events.clean(f"malformed answer: {body[:1000]!r}")
        choices, usage = events.choices_of(answer), answer.get("usage")
        self._meter.last, ending = answer, self._meter.ending
        ending.done = True
        ending.note(answer, choices)
        self._meter.model = answer.get("model")
        if isinstance(usage, dict):
            self._meter.count(usage)
        if self._asked_stream:
            ending.fail("the answer is not a stream")
        tokens = events.has_content(choices) or bool(self._meter.output_tokens)
        return ending.problem(tokens=tokens)

    def _record(self, error: str | None, at: float) -> None:
        if self._recorded:
            return
        self._recorded = True
        meter, per_chunk = self._meter, self._meter.per_chunk
        is_another = meter.model and self._model not in (None, meter.model)
        # A client that reads a malformed event hangs up. The event is the cause.
        error = meter.ending.error or error
        if error is not None:
            for name in _SECRET_HEADERS:
                error = masked(error, _text(self.request.headers, name).rpartition(" ")[2])
            error = access.masked(error)
        elif meter.chunks:
            # Gateways hold back usage and [DONE]; a user has the answer with its last token.
            at = self.last_token
        self._tap.record(
            Record(
                **self._label._asdict(),
                request=self.id,
                sent=self._sent,
                status=self._status,
                error=error,
                prompt_tokens=meter.prompt_tokens,
                output_tokens=meter.output_tokens,
                stream=self._asked_stream,
                per_chunk=per_chunk,
                chunks=tuple(
                    (round(offset, 6), tokens)
                    for number, (offset, tokens) in enumerate(meter.chunks)
                    if tokens or not (per_chunk and number)
                ),
                end=round(at - self._start, 6),
                prompt=self._prompt,
                prompt_class=self._class,
                due=self._due,
                came=None if self._due is None else self._came,
                tools=self._tools,
                characters=None if self._tools or meter.thinks else meter.characters or None,
                hidden_tokens=meter.hidden_tokens,
                finish=meter.ending.finish,
                choices=self._choices,
                model=events.clean(str(meter.model)) if is_another else "",
                cached_tokens=meter.cached_tokens,
                speculation=speculation.read(meter.last, meter.before_last),
                lag=round(max(self._drivers_lag, self._tap.lag.since(self._mark)), 6),
            )
        )


def _text(headers: Headers, name: bytes) -> str:
    return unquote((http1.value(headers, name) or b"").decode("ascii", "replace"))


def _seconds(headers: Headers, name: bytes) -> float | None:
    """A header's value in seconds, such as the due time; None where the client does not send it."""
    try:
        seconds = float(http1.value(headers, name) or "")
    except ValueError:
        return None
    return seconds if 0 <= seconds <= 1e11 else None


def collect_garbage() -> None:
    """Collects garbage between loads: during one it would hold up all streams."""
    gc.unfreeze()
    gc.collect()
    gc.freeze()


def _allow_open_files() -> None:
    """Raises the limit of open files for this process and those that it starts."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    target = _OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, _OPEN_FILES)
    if soft != resource.RLIM_INFINITY and soft < target:
        with contextlib.suppress(ValueError, OSError):  # macOS may allow less than it says
            resource.setrlimit(resource.RLIMIT_NOFILE, (target, hard))


class Tap:
    """Stands before one endpoint. ``async with`` serves it; ``url`` is what clients are given.

    ``endpoint`` is the server's base URL, ``/v1`` included. ``port`` is where the tap listens at
    ``host``; 0 takes a free one. ``renames``: a server that refuses ``max_tokens`` gets it by its
    new name. ``stall_seconds`` is how long the server may send nothing.
    ``on_record`` receives each line of the ledger, ``page`` is the proxy's. When the ledger cannot
    be written, for instance because the disk is full, the tap goes on serving and keeps the OSError
    in ``failure``. ``short`` is whether this process ran out of file descriptors, which is no fault
    of the server.
    """

    def __init__(
        self,
        endpoint: str,
        *,
        run: str,
        variant: str,
        ledger: Journal,
        host: str = LOOPBACK,
        port: int = 0,
        renames: bool = False,
        stall_seconds: float = STALL_SECONDS,
        on_record: Callable[[Record], None] = lambda record: None,
        page: Callable[[Request], bytes | None] = lambda request: None,
    ) -> None:
        self._label = Label(run, variant, case="", round=0)
        self._ledger = ledger
        self._on_record = on_record
        self._host, self._port = host, port
        self.unrecorded = Counter[str]()
        """Requests without a line in the ledger, counted by path."""
        self.server = Server(renames)
        self._proxy = Proxy(endpoint, stall_seconds, self._exchange, page)
        self.failure: OSError | None = None
        self._heard = 0.0
        self.short = False
        self._completions: dict[str, Completion] = {}

    def label(self, case: str, round: int, *more: Any) -> None:
        """Sets the label of the requests from now on; it takes the fields of a Label."""
        self._label = Label(*self._label[:2], case, round, *more)

    @property
    def in_flight(self) -> int:
        """The number of completions that have come and have no line in the ledger yet."""
        return len(self._completions)

    @property
    def silent(self) -> bool:
        """Whether the server has been silent to everybody for about as long as it may be."""
        heard = max((each.last_token for each in self._completions.values()), default=0.0)
        # A little less counts: the requests of one wave are sent one after another.
        limit = 0.9 * self._proxy.stall_seconds
        return time.monotonic() - max(heard, self._heard) >= limit

    def give_up(self, reason: str) -> None:
        """Records each request in flight as failed, even if it ends well later."""
        for completion in [*self._completions.values()]:
            completion.broke(reason, time.monotonic())

    @property
    def url(self) -> str:
        """Base URL of the endpoint through the tap."""
        return self._proxy.url

    async def __aenter__(self) -> Self:
        """Starts to serve. Raises OSError, for instance where the port is in use."""
        _allow_open_files()
        # asyncio's own handler prints a traceback for each connection that it cannot accept.
        asyncio.get_running_loop().set_exception_handler(self._on_loop_error)
        self.lag = Lag()
        await self._proxy.start(self._port, self._host)
        return self

    async def __aexit__(self, *_: object) -> None:
        """Ends all connections; requests under way are recorded as cancelled."""
        self.lag.stop()
        await self._proxy.stop()

    def _on_loop_error(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        if limits.short_of_files(context.get("exception")):
            self.short = True
        else:
            loop.default_exception_handler(context)

    def _exchange(self, request: Request) -> Exchange:
        more = [(name.encode(), value.encode()) for name, value in access.HEADERS.items()]
        names = (name.lower() for name, _ in more)
        request.headers = [*http1.without(request.headers, *names), *more]
        path = request.target.partition(b"?")[0]
        if request.method == b"POST" and path.endswith(_COMPLETION_PATHS):
            completion = Completion(request, self._label, self)
            self._completions[completion.id] = completion
            return completion
        if request.method == b"POST":
            name = path.decode("latin-1")
            known = name in self.unrecorded or len(self.unrecorded) < _PATHS
            self.unrecorded[name if known else "other paths"] += 1
        return Exchange(request)

    def record(self, record: Record) -> None:
        """Adds a completion's line to the ledger."""
        del self._completions[record.request]
        if record.status is not None and not record.stalled:
            self._heard = time.monotonic()
        self.short |= record.error == limits.SHORTAGE
        try:
            self._ledger.append(record)
        except OSError as error:
            self.failure = error
        self._on_record(record)
