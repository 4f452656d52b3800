"""The proxy between bare sockets: HTTP/1.1 messages of any shape pass."""

import asyncio
import itertools
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from spectap.tap.http1 import Headers, Request
from spectap.tap.proxy import Exchange, Proxy
from tests.tapped import Serve, connection, eventually, sockets

pytestmark = pytest.mark.anyio

GET = b"GET /v1/x HTTP/1.1\r\nHost: localhost\r\n\r\n"
GET_ONCE = b"GET /v1/x HTTP/1.0\r\nHost: localhost\r\n\r\n"
HI = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"


class Watched(Exchange):
    """Records its outcome. The body of an answer with status 203 may change its length."""

    def __init__(self, request: Request) -> None:
        super().__init__(request)
        self.outcome: str | None = None

    def answered(self, status: int, headers: Headers) -> bool:
        return status == 203

    def ended(self, at: float) -> bytes:
        self.outcome = "ended"
        return b""

    def broke(self, reason: str, at: float) -> None:
        self.outcome = reason


class Between:
    """A proxy before a scripted server: what it saw, and what became of each request."""

    def __init__(self, upstream: str, stall_seconds: float) -> None:
        self.proxy = Proxy(upstream, stall_seconds, self._exchange)
        self.exchanges: list[Watched] = []
        self.requests: list[bytes] = []

    def _exchange(self, request: Request) -> Exchange:
        self.exchanges.append(Watched(request))
        return self.exchanges[-1]

    @property
    def outcomes(self) -> list[str | None]:
        return [exchange.outcome for exchange in self.exchanges]

    async def ask(self, data: bytes, *, until: bytes | None = None) -> bytes:
        """What comes back for these bytes: until the connection closes, or until these."""
        async with connection(self.proxy.url) as (reader, writer):
            writer.write(data)
            return await (reader.read() if until is None else reader.readuntil(until))


@asynccontextmanager
async def between(script: Serve | bytes, stall_seconds: float = 5) -> AsyncIterator[Between]:
    """``script``: what the server does once it has read a request's head, or what it answers."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        b.requests.append(await reader.readuntil(b"\r\n\r\n"))
        if isinstance(script, bytes):
            writer.write(script)
        else:
            await script(reader, writer)

    async with sockets(serve) as url:
        b = Between(url, stall_seconds)
        await b.proxy.start()
        try:
            yield b
        finally:
            await b.proxy.stop()


OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n\r\n"
CLOSE = b"Connection: close\r\n\r\n"
EARLY = b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n"
PRIVATE = b"Connection: keep-alive, X-Private\r\nx-private: 1\r\nKeep-Alive: 5\r\n"
HI_IN_CHUNKS = OK + CHUNKED + b"1\r\nh\r\n1\r\ni\r\n0\r\nX-Trailer: 1\r\n\r\n"


@pytest.mark.parametrize(
    ("request_", "answer", "passed"),
    [
        (GET, HI, HI),
        (GET, b"HTTP/1.1 304 Same\r\nContent-Length: 7\r\n\r\n", None),
        (GET, EARLY + HI, HI),
        (GET, OK + PRIVATE + b"Content-Length: 2\r\n\r\nhi", HI),
        # A client that waits for a length would take the next answer for this one's end.
        (
            GET,
            OK + b"Connection: Content-Length\r\nContent-Length: 2\r\n\r\nhi",
            OK + CHUNKED + b"2\r\nhi\r\n0\r\n\r\n",
        ),
        (GET, HI_IN_CHUNKS, OK + CHUNKED + b"2\r\nhi\r\n0\r\n\r\n"),
        (GET, b"HTTP/1.0 200 OK\r\n\r\nhi", OK + CHUNKED + b"2\r\nhi\r\n0\r\n\r\n"),
        (
            GET,
            HI.replace(b"200 OK", b"203 Changed"),
            b"HTTP/1.1 203 Changed\r\n" + CHUNKED + b"2\r\nhi\r\n0\r\n\r\n",
        ),
        # What a server sends after its answer is ignored.
        (
            GET[:-2] + CLOSE,
            HI + b"HTTP/1.1 408 Timeout\r\nContent-Length: 3\r\n\r\nbye",
            HI.replace(b"\r\n\r\n", b"\r\n" + CLOSE),
        ),
        (GET_ONCE, HI_IN_CHUNKS, OK + CLOSE + b"hi"),
    ],
)
async def test_an_answer_of_any_shape(request_: bytes, answer: bytes, passed: bytes | None) -> None:
    passed = passed or answer
    async with between(answer) as b:
        async with connection(b.proxy.url) as (reader, writer):
            writer.write(request_)
            assert await reader.readexactly(len(passed)) == passed
            if CLOSE in passed:
                assert await reader.read() == b""
        assert b.outcomes == ["ended"]


@pytest.mark.parametrize(
    ("method", "length", "sent"),
    [(b"GET", b"", None), (b"POST", b"", b"0"), (b"POST", b"2", b"2")],
)
async def test_a_request_has_its_length_and_a_connection_of_its_own(
    method: bytes, length: bytes, sent: bytes | None
) -> None:
    request = GET.replace(b"GET", method)
    if length:
        request = request[:-2] + b"Content-Length: 2\r\n\r\nhi"
    async with between(HI) as b:
        await b.ask(request, until=b"hi")
        lines = b.requests[0].split(b"\r\n")
    assert lines[0] == method + b" /v1/x HTTP/1.1"
    assert lines[1].startswith(b"Host: 127.0.0.1:")
    assert b"Connection: close" in lines
    lengths = [line.partition(b": ")[2] for line in lines if line.startswith(b"Content-Length")]
    assert lengths == ([] if sent is None else [sent])


async def test_requests_of_one_connection_are_answered_in_their_order() -> None:
    numbers = itertools.count(1)

    async def later_is_faster(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        number = next(numbers)
        await asyncio.sleep(0.05 / number)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n%d" % number)

    async with between(later_is_faster) as b:
        last = GET.replace(b"Host: localhost", b"Connection: close")
        answers = (await b.ask(GET + GET + last)).split(b"HTTP/1.1")[1:]
        assert [answer[-1:] for answer in answers] == [b"1", b"2", b"3"]
        assert [b"Connection: close" in answer for answer in answers] == [False, False, True]
        assert b.outcomes == ["ended"] * 3


async def test_a_client_that_waits_for_a_hundred_is_told_to_go_on() -> None:
    async with between(HI) as b:
        head = b"POST /v1/x HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\n"
        async with connection(b.proxy.url) as (reader, writer):
            writer.write(head + b"Expect: 100-continue\r\n\r\n")
            assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
            writer.write(b"body")
            assert await reader.readexactly(len(HI)) == HI
        assert b"Expect" not in b.requests[0]


UNSUPPORTED = "CONNECT and Upgrade are not supported: set the client to plain HTTP/1.1"
UPGRADE = b"Connection: Upgrade\r\nUpgrade: h2c\r\n"


@pytest.mark.parametrize(
    ("head", "reason"),
    [
        (b"CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n", UNSUPPORTED),
        (GET[:-2].replace(b"GET", b"POST") + UPGRADE + b"Content-Length: 4194304\r\n", UNSUPPORTED),
        (b"nonsense\r\n", "malformed request: "),
    ],
)
async def test_what_is_no_plain_request_is_refused(head: bytes, reason: str) -> None:
    async with between(HI) as b:
        async with connection(b.proxy.url) as (reader, writer):
            writer.write(head + b"\r\n")
            await asyncio.sleep(0.02)
            # A body that is still on its way does not cost the client its answer.
            writer.write(b"x" * 2**22)
            await writer.drain()
            answer = await reader.read()
        assert answer.startswith(b"HTTP/1.1 400 ")
        error = json.loads(answer.partition(b"\r\n\r\n")[2])["error"]
        assert error["message"].startswith(f"tap: {reason}")
        assert b.exchanges == []


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-", "reset: closed before an answer"),
        (b"SSH-2.0-OpenSSH\r\n", "malformed answer: "),
        (b"HTTP/1.1 101 Switching\r\n" + UPGRADE + b"\r\n", "malformed answer: "),
    ],
)
async def test_no_answer_becomes_a_502_and_the_connection_stays(answer: bytes, reason: str) -> None:
    async with between(answer) as b:
        async with connection(b.proxy.url) as (reader, writer):
            for _ in range(2):
                writer.write(GET)
                got = await reader.readuntil(b"}}")
                assert got.startswith(b"HTTP/1.1 502 Bad Gateway\r\n")
                assert f"tap: {reason}".encode() in got
        assert all((outcome or "").startswith(reason) for outcome in b.outcomes)


async def test_silence_is_counted_from_the_last_byte() -> None:
    async def slow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(OK + CHUNKED)
        for _ in range(4):
            await asyncio.sleep(0.12)
            writer.write(b"1\r\nx\r\n")
        await reader.read()

    async with between(slow, 0.3) as b:
        assert (await b.ask(GET)).count(b"1\r\nx\r\n") == 4
        assert b.outcomes == ["stalled: nothing came for 0.3 s"]


async def test_a_slow_client_slows_the_server_and_misses_nothing() -> None:
    size = 64 * 2**20
    written = 0

    async def fast(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal written
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size)
        while written < size:
            writer.write(b"x" * 2**16)
            await writer.drain()
            written += 2**16

    async with between(fast, 0.3) as b, connection(b.proxy.url) as (reader, writer):
        writer.write(GET)
        assert b"Content-Length" in await reader.readuntil(b"\r\n\r\n")
        # Longer than the server may be silent: it is not the one that stalls.
        await asyncio.sleep(0.5)
        assert written < size / 2
        assert await reader.readexactly(size) == b"x" * size


async def test_a_client_that_leaves_is_left_by_the_side_of_the_server_too() -> None:
    hung_up = asyncio.Event()

    async def waits(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        hung_up.set()

    async with between(waits) as b:
        async with connection(b.proxy.url) as (_, writer):
            writer.write(GET)
            await eventually(lambda: bool(b.requests))
        await eventually(hung_up.is_set)
        assert b.outcomes == ["cancelled by the client"]


@pytest.mark.parametrize("streams", [2, 64])
async def test_what_comes_in_one_instant_has_the_time_of_that_instant(streams: int) -> None:
    """However long the work on each part takes; the end of each connection comes after its part."""
    asked, times = list[asyncio.StreamWriter](), list[float]()
    all_asked = asyncio.Event()

    class Slow(Exchange):
        def passes(self, body: bytes, at: float) -> bytes:
            times.append(at)
            time.sleep(0.005)
            return body

    async def serve(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(writer)
        if len(asked) == streams:
            for each in asked:
                each.write(b"HTTP/1.1 200 OK\r\n\r\nhi")  # until the connection ends
            all_asked.set()
        await all_asked.wait()

    async with between(serve) as b:
        b.proxy.exchange = Slow
        answers = await asyncio.gather(*(b.ask(GET_ONCE) for _ in range(streams)))
    assert all(answer.endswith(b"\r\n\r\nhi") for answer in answers)
    assert max(times) - min(times) < 0.15
