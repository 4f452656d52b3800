"""What the tap refuses or breaks off: messages without end, and requests from elsewhere."""

import asyncio
import contextlib
import itertools
import json
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

from spectap.protocol import limits
from spectap.protocol.limits import KIB, MIB
from spectap.tap import http1
from tests.tapped import Bench, bench, chat, connection, golden, sockets

pytestmark = pytest.mark.anyio

HEAD = b"HTTP/1.1 200 OK\r\n"
JSON = HEAD + b"Content-Type: application/json\r\n\r\n"
STREAM = HEAD + b"Content-Type: text/event-stream\r\n\r\n"
CHUNKED = HEAD + b"Content-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
LETTERS = b"x" * 60 * KIB
CHUNK = b"1;x=" + LETTERS + b"\r\nx\r\n"
# Each has an index of its own, which the tap has to remember.
CHOICES = b"".join(
    b'data: {"usage":{"completion_tokens":1},"choices":[{"index":%d}]}\n\n' % index
    for index in range(1000)
)


@asynccontextmanager
async def endless(start: bytes, chunk: bytes) -> AsyncIterator[str]:
    """A server that answers with ``start`` and then with ``chunk``, again and again."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(start)
        while not writer.is_closing():
            writer.write(chunk)
            await writer.drain()

    async with sockets(serve) as url:
        yield url


async def send(b: Bench, start: bytes, chunks: Iterable[bytes] = ()) -> bytes:
    """The tap's answer to these bytes. Sending ends with the answer."""
    async with connection(b.tap.url) as (reader, writer):
        writer.write(start)
        answer = asyncio.ensure_future(reader.read())
        for chunk in chunks:
            if answer.done():
                break
            writer.write(chunk)
            await writer.drain()
            await asyncio.sleep(0)
        return await answer


@pytest.mark.parametrize(
    ("start", "chunk", "cause"),
    [
        (HEAD + b"X: ", LETTERS, "the answer's head has more than 64 KiB"),
        (CHUNKED + b"0\r\nX: ", LETTERS, "the answer's framing has more than 64 KiB"),
        (CHUNKED, CHUNK, "the answer's framing has more than 8 MiB"),
        (STREAM + b"data: \r", LETTERS, "an event has more than 4 MiB"),
        (STREAM, CHOICES, "the stream has more than 20,000 events"),
        (STREAM, b": " + LETTERS + b"\n\n", "the stream has more than 16 MiB"),
    ],
)
async def test_an_answer_without_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, start: bytes, chunk: bytes, cause: str
) -> None:
    # The product's limits take seconds to send.
    monkeypatch.setattr(limits, "EVENTS", 20_000)
    monkeypatch.setattr(limits, "STREAM", 16 * MIB)
    monkeypatch.setattr(limits, "ANSWER", 8 * MIB)
    async with endless(start, chunk) as url, bench(url, tmp_path, 60) as b:
        with contextlib.suppress(aiohttp.ClientError):  # the answer breaks off
            await b.post(chat())
        assert b.only().error == f"too long: {cause}"


POST = b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n"
POST_CHUNKS = POST + b"Transfer-Encoding: chunked\r\n\r\n"
LONG_POST = POST + b"Content-Length: 9999999999\r\n\r\n"


@pytest.mark.parametrize(
    ("start", "chunk", "status", "cause"),
    [
        (b"GET /", LETTERS, 431, "the request's head has more than 64 KiB"),
        (POST_CHUNKS + b"1;x=", LETTERS, 431, "the request's head has more than 64 KiB"),
        (POST_CHUNKS, CHUNK, 413, "the request's framing has more than 8 MiB"),
        (LONG_POST, LETTERS, 413, "the request's body has more than 64 MiB"),
    ],
)
async def test_a_request_without_end(
    tmp_path: Path, start: bytes, chunk: bytes, status: int, cause: str
) -> None:
    async with golden(1) as endpoint, bench(endpoint.url, tmp_path) as b:
        answer = await send(b, start, itertools.repeat(chunk))
        head, _, body = answer.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 %d " % status)
        assert json.loads(body)["error"]["message"] == f"tap: too long: {cause}"
        assert (await b.post(chat()))[0] == 200
        assert len(endpoint.sent) == 1


@pytest.mark.parametrize(
    ("target", "headers", "status"),
    [
        ("/v1/", "Host: localhost\r\nOrigin: http://localhost:3000", 200),
        ("/v1/", "Host: rebound.example:8001", 421),
        ("http://rebound.example/v1/", "Host: localhost", 400),
        ("/v1/", "Host: localhost\r\nOrigin: https://page.example", 403),
    ],
)
async def test_only_requests_for_loopback_reach_the_server(
    tmp_path: Path, target: str, headers: str, status: int
) -> None:
    """A web page may POST this type without asking first, though it cannot read the answer."""
    body = json.dumps(chat())
    path = target.replace("/v1/", "/v1/chat/completions")
    about = f"Content-Type: text/plain\r\nContent-Length: {len(body)}\r\nConnection: close"
    async with golden(1) as endpoint, bench(endpoint.url, tmp_path) as b:
        request = f"POST {path} HTTP/1.1\r\n{headers}\r\n{about}\r\n\r\n{body}"
        assert (await send(b, request.encode())).startswith(b"HTTP/1.1 %d " % status)
        assert len(endpoint.sent) == (status == 200)


@pytest.mark.parametrize(
    ("host", "near", "loopback"),
    [
        ("127.0.0.1:8001", True, True),
        ("[::1]:8001", True, True),
        ("10.0.0.7:8001", True, False),
        ("[fd00::7]", True, False),
        ("tap:8001", True, False),  # a service's name
        ("rebound.example", False, False),
        ("localhost.rebound.example", False, False),
        ("10.0.0.7.rebound.example", False, False),
        ("me@rebound.example", False, False),
        ("", False, False),
    ],
)
def test_a_tap_is_no_web_page_s_even_where_it_listens_to_the_network(
    host: str, near: bool, loopback: bool
) -> None:
    ours, name = [(b"Host", b"localhost"), (b"Origin", b"http://localhost")], host.encode()
    for listens_near, allowed in ((True, near), (False, loopback)):
        headers = [*ours, (b"Host", name)]
        assert (http1.refusal(b"/", headers, loopback=not listens_near) is None) is allowed
    foreign = [*ours, (b"Origin", b"http://" + name)]
    assert (http1.refusal(b"/", foreign, loopback=False) is None) is loopback
    assert http1.refusal(b"/", [*ours, (b"Origin", b"null")], loopback=True)
