"""A server, the tap and a client, each in a process of its own, with one monotonic clock."""

import asyncio
import json
import multiprocessing
import random
import selectors
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from http.client import HTTPConnection
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import aiohttp

from spectap.golden.schedule import Step
from spectap.golden.server import GoldenEndpoint
from spectap.records.journal import Journal
from spectap.tap.tap import Tap, collect_garbage

Sent = dict[str, Any]


@contextmanager
def golden(rate: int, sizes: Sequence[int]) -> Iterator[str]:
    """Serves golden streams of ``rate`` chunks a second, of ``sizes`` tokens in turn; its URL."""
    with _running(_serve_golden, rate, tuple(sizes)) as (_, pipe):
        yield pipe.recv()


@contextmanager
def tapped(endpoint: str, path: Path) -> Iterator[tuple[str, int]]:
    """Serves a tap before the endpoint, with its ledger there: its URL and process id."""
    with _running(_serve_tap, endpoint, path) as (process, pipe):
        yield pipe.recv(), process.pid or 0


def streams(url: str, names: Sequence[str], rate: int, chunks: int) -> list[list[float]]:
    """Times at which the chunks of each stream arrived at a client process.

    Streams begin one after the other within a second, each at its own place between two chunks: a
    burst would measure how long requests take to open.
    """
    count = len(names)
    order = random.Random(0).sample(range(count), count)
    delays = [1 + (index + position / rate) / count for index, position in enumerate(order)]
    with _running(_receive, url, tuple(names), delays, chunks) as (process, pipe):
        times: list[list[float]] = pipe.recv()
        process.join()
    return times


def record(url: str) -> dict[str, Sent]:
    """The server's own record, by request id."""

    async def get() -> list[Sent]:
        async with (
            aiohttp.ClientSession() as session,
            session.get(url.removesuffix("/v1") + "/record") as response,
        ):
            sent: list[Sent] = await response.json()
            return sent

    return {sent["id"]: sent for sent in asyncio.run(get())}


def _serve_golden(pipe: Connection, rate: int, sizes: Sequence[int]) -> None:
    def schedule(prompt: str, number: int, chunks: int) -> list[Step]:
        return [Step((i + 1) / rate, sizes[i % len(sizes)]) for i in range(chunks)]

    async def serve() -> None:
        async with GoldenEndpoint(schedule) as golden:
            await _forever(pipe, golden.url)

    asyncio.run(serve())


def _serve_tap(pipe: Connection, endpoint: str, path: Path) -> None:
    async def serve() -> None:
        with Journal(path) as ledger:
            async with Tap(endpoint, run="bench", variant="Base", ledger=ledger) as tap:
                collect_garbage()
                await _forever(pipe, tap.url)

    asyncio.run(serve())


async def _forever(pipe: Connection, url: str) -> None:
    pipe.send(url)
    await asyncio.Event().wait()


def _receive(
    pipe: Connection, url: str, names: Sequence[str], delays: Sequence[float], chunks: int
) -> None:
    """A client on bare sockets, which costs less than what it measures."""
    times: list[list[float]] = [[] for _ in names]
    begun = time.monotonic()
    waiting = sorted(zip(delays, range(len(names)), strict=True), reverse=True)
    selector = selectors.DefaultSelector()
    while waiting or selector.get_map():
        while waiting and begun + waiting[-1][0] <= time.monotonic():
            _, index = waiting.pop()
            connection = _ask(url, names[index], chunks)
            selector.register(connection, selectors.EVENT_READ, times[index])
        wait = max(0.0, begun + waiting[-1][0] - time.monotonic()) if waiting else None
        for key, _ in selector.select(wait):
            source = key.fileobj
            assert isinstance(source, socket.socket)  # as it was registered
            read = source.recv(65536)
            if not read:
                selector.unregister(source)
                source.close()
            # The key stands in each event once; the role's event has an empty content.
            new = read.count(b'"content":"') - read.count(b'"content":""')
            key.data.extend([time.monotonic()] * new)
    pipe.send(times)


def _ask(url: str, name: str, chunks: int) -> socket.socket:
    parts = urlsplit(url)
    messages = [{"role": "user", "content": "go"}]
    body = {"model": "Qwen/Qwen3-32B", "stream": True, "max_tokens": chunks, "messages": messages}
    connection = HTTPConnection(parts.netloc)
    headers = {"X-Request-Id": name, "Content-Type": "application/json", "Connection": "close"}
    connection.request("POST", f"{parts.path}/chat/completions", json.dumps(body), headers)
    return connection.sock


@contextmanager
def _running(
    target: Callable[..., None], *arguments: Any
) -> Iterator[tuple[multiprocessing.Process, Connection]]:
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.Process(target=target, args=(theirs, *arguments), daemon=True)
    process.start()
    theirs.close()  # so that a process that has died is noticed
    try:
        yield process, ours
    finally:
        process.terminate()
        process.join()
