"""A golden server, the tap and a client, each in a process of its own."""

from __future__ import annotations

import asyncio
import multiprocessing
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import aiohttp

from benchmark.ledger import Ledger
from benchmark.tap import Tap, settle
from rehearsal.golden import Golden
from rehearsal.schedule import Step

Sent = dict[str, Any]


@contextmanager
def served(rate: int, sizes: Sequence[int], folder: Path) -> Iterator[tuple[str, str, int]]:
    """Serves golden streams of ``rate`` chunks a second, of ``sizes`` tokens in turn, and a tap
    before them whose ledger is in ``folder``: the server's URL, the tap's URL and process id."""
    server, golden_url = _start(_serve_golden, rate, tuple(sizes))
    tap, tap_url = _start(_serve_tap, golden_url, folder / "ledger.jsonl")
    try:
        yield golden_url, tap_url, tap.pid or 0
    finally:
        for process in (tap, server):
            process.terminate()
            process.join()


def streams(
    url: str, names: Sequence[str], delays: Sequence[float], chunks: int
) -> list[list[float]]:
    """Times at which the chunks of each stream arrived at a client process."""
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.Process(
        target=_run_client, args=(theirs, url, tuple(names), tuple(delays), chunks)
    )
    process.start()
    times: list[list[float]] = ours.recv()
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


def _run_client(
    pipe: Connection, url: str, names: Sequence[str], delays: Sequence[float], chunks: int
) -> None:
    async def load() -> list[list[float]]:
        return await asyncio.gather(
            *(_one(url, name, chunks, delay) for name, delay in zip(names, delays, strict=True))
        )

    pipe.send(asyncio.run(load()))


async def _one(url: str, name: str, chunks: int, delay: float) -> list[float]:
    """Times at which the chunks of one stream arrived, read with as little work as can be."""
    await asyncio.sleep(delay)
    parts = urlsplit(url)
    body = (
        f'{{"model":"Qwen/Qwen3-32B","stream":true,"max_tokens":{chunks},'
        '"messages":[{"role":"user","content":"go"}]}'
    ).encode()
    head = (
        f"POST {parts.path}/chat/completions HTTP/1.1\r\nHost: {parts.netloc}\r\n"
        f"X-Request-Id: {name}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    ).encode()
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
    writer.write(head + body)
    times: list[float] = []
    while read := await reader.read(65536):
        now = time.monotonic()
        # The key stands in each event once; the role's event has an empty content.
        times += [now] * (read.count(b'"content":"') - read.count(b'"content":""'))
    writer.close()
    return times


def _serve_golden(pipe: Connection, rate: int, sizes: Sequence[int]) -> None:
    def schedule(prompt: str, number: int, chunks: int) -> list[Step]:
        return [Step((i + 1) / rate, sizes[i % len(sizes)]) for i in range(chunks)]

    async def serve() -> None:
        async with Golden(schedule) as golden:
            await _forever(pipe, golden.url)

    asyncio.run(serve())


def _serve_tap(pipe: Connection, endpoint: str, path: Path) -> None:
    async def serve() -> None:
        with Ledger(path) as ledger:
            async with Tap(endpoint, run="bench", variant="Base", ledger=ledger) as tap:
                settle()
                await _forever(pipe, tap.url)

    asyncio.run(serve())


async def _forever(pipe: Connection, url: str) -> None:
    pipe.send(url)
    await asyncio.Event().wait()


def _start(target: Callable[..., None], *arguments: Any) -> tuple[multiprocessing.Process, str]:
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.Process(target=target, args=(theirs, *arguments), daemon=True)
    process.start()
    return process, ours.recv()
