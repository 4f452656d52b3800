"""Clients and servers that send and leave as they like: no traceback, and nothing is left over."""

import asyncio
import os
import random
import socket
import struct
import time
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from spectap.protocol import limits
from tests.tapped import Bench, bench, connection, eventually, golden, sockets

pytestmark = pytest.mark.anyio

# A longer search: STORM=20 pytest tests/tap/test_hostile.py
SECONDS = float(os.environ.get("STORM", "1.5"))

HOST = b"Host: localhost\r\n"
POST = b"POST /v1/chat/completions HTTP/1.1\r\n" + HOST
REQUESTS = (
    b"GET /v1/models HTTP/1.1\r\n" + HOST + b"\r\n",
    POST + b'Content-Length: 15\r\n\r\n{"stream":true}',
    POST + b"Content-Length: 99999999\r\n\r\n",
    POST + b"Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
    POST + b"Expect: 100-continue\r\nTransfer-Encoding: chunked\r\n\r\n",
    POST + b"Authorization: Bearer \xff\r\nContent-Length: 2\r\n\r\n{}",
    b"5\r\nhello\r\n",
    b"0\r\n\r\n",
    b"CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: elsewhere\r\n\r\n",
    b"GET / HTTP/1.1\r\nUpgrade: h2c\r\nConnection: upgrade\r\n" + HOST + b"\r\n",
    b"nonsense\r\n\r\n",
    b"\x16\x03\x01\x00",
    b"x" * 70_000,
)
OK = b"HTTP/1.1 200 OK\r\n"
ANSWERS = (
    OK + b"Content-Length: 2\r\n\r\n{}",
    OK + b"Content-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n",
    OK + b"Content-Encoding: gzip\r\nConnection: content-encoding\r\n\r\n\x1f\x8b\x08\x00",
    OK + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\n",
    b"HTTP/1.1 103 Early Hints\r\n\r\n",
    b"HTTP/1.1 101 Switching\r\nUpgrade: h2c\r\nConnection: upgrade\r\n\r\n",
    b"HTTP/1.1 999 \xff\r\nContent-Length: 0\r\n\r\n",
    b"f\r\ndata: [DONE]\n\n\r\n",
    b'10\r\ndata: {"usage":0\r\n',
    b"0\r\n\r\n",
    b"fffffffffffffffff\r\n",
    b"x" * 70_000,
)


async def send_any(of: random.Random, pieces: tuple[bytes, ...], to: asyncio.StreamWriter) -> None:
    """Sends some of ``pieces``, whole or torn, and may reset the connection."""
    for _ in range(of.randint(1, 4)):
        piece = of.choice(pieces)
        to.write(piece if of.random() < 0.7 else piece[: of.randint(0, len(piece))])
        if of.random() < 0.5:
            await asyncio.sleep(of.random() * 0.003)
    if of.random() < 0.7 and not to.is_closing():
        linger = struct.pack("ii", 1, 0)
        to.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        to.transport.abort()


async def test_a_storm_of_both_leaves_no_traceback_and_no_connection(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    of = random.Random(1)
    stop = time.monotonic() + SECONDS
    writers: list[asyncio.StreamWriter] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        await send_any(of, ANSWERS, writer)

    async def clients(b: Bench) -> None:
        address = urlsplit(b.tap.url)
        while time.monotonic() < stop:
            _, writer = await asyncio.open_connection(address.hostname, address.port)
            await send_any(of, REQUESTS, writer)
            writer.close()
            writers.append(writer)

    async with sockets(serve) as url, bench(url, tmp_path, 10) as b:
        await asyncio.gather(*(clients(b) for _ in range(16)))
        for writer in writers:
            writer.transport.abort()
        await eventually(lambda: not b.tap._proxy.clients)
        assert b.tap.in_flight == 0
        assert len(b.records()) > 5
    assert [record.getMessage() for record in caplog.records] == []


@pytest.mark.parametrize(
    "answer", [OK + b"X: 1", b"HTTP/1.1 103 Early Hints\r\n\r\n" + OK, OK + b"Content-Length: 2"]
)
async def test_a_head_that_drips_is_silence(tmp_path: Path, answer: bytes) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(answer)
        for _ in range(40):
            writer.write(b"1")
            await asyncio.sleep(0.05)

    async with sockets(serve) as url, bench(url, tmp_path, 0.4) as b:
        assert (await b.post({}))[0] == 504
        assert b.only().error == "stalled: nothing came for 0.4 s"


@pytest.mark.parametrize("start", [b"GET /", POST + b"Content-Length: 9\r\n\r\n"])
async def test_a_request_that_drips_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, start: bytes
) -> None:
    monkeypatch.setattr(limits, "REQUEST_SECONDS", 0.3)
    async with (
        golden(1) as endpoint,
        bench(endpoint.url, tmp_path) as b,
        connection(b.tap.url) as (reader, writer),
    ):
        writer.write(start)
        for _ in range(8):
            await asyncio.sleep(0.05)
            writer.write(b"x")
        answer = await reader.read()
        assert answer.startswith(b"HTTP/1.1 408 ")
        assert b"the request took more than 0.3 s to come" in answer
        # It has not left, so it is left.
        await eventually(lambda: len(b.tap._proxy.clients) == 0)
