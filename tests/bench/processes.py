"""A server, the tap and a client, each in a process of its own."""

from __future__ import annotations

import asyncio
import multiprocessing
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import aiohttp

from rehearsal.golden.schedule import Step
from rehearsal.golden.server import Golden
from spectap.journal import Journal
from spectap.tap.tap import Tap, settle
from tests.bench import pace

Sent = dict[str, Any]


@contextmanager
def golden(rate: int, sizes: Sequence[int]) -> Iterator[str]:
    """Serves golden streams of ``rate`` chunks a second, of ``sizes`` tokens in turn; its URL."""
    with _running(_serve_golden, rate, tuple(sizes)) as (_, pipe):
        yield pipe.recv()


@contextmanager
def paced(rate: int, chunks: int) -> Iterator[tuple[str, Callable[[], dict[str, list[float]]]]]:
    """Serves streams of that many chunks, that many a second: its URL, and what asks it when it
    sent them, by request id."""

    def sent() -> dict[str, list[float]]:
        pipe.send(None)
        times: dict[str, list[float]] = pipe.recv()
        return times

    with _running(pace.serve, rate, chunks) as (_, pipe):
        yield pipe.recv(), sent


@contextmanager
def tapped(endpoint: str, path: Path) -> Iterator[tuple[str, int]]:
    """Serves a tap before the endpoint, with its ledger there: its URL and process id."""
    with _running(_serve_tap, endpoint, path) as (process, pipe):
        yield pipe.recv(), process.pid or 0


def staggered(count: int, rate: int) -> list[float]:
    """Seconds after which each stream begins: one after the other within a second, each at its own
    place between two chunks. A burst would measure how long requests take to open, and the
    server's queue."""
    order = random.Random(0).sample(range(count), count)
    return [1 + (index + position / rate) / count for index, position in enumerate(order)]


def streams(
    url: str, names: Sequence[str], delays: Sequence[float], chunks: int
) -> list[list[float]]:
    """Times at which the chunks of each stream arrived at a client process."""
    arguments = (url, tuple(names), tuple(delays), chunks)
    with _running(pace.receive, *arguments) as (process, pipe):
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
        async with Golden(schedule) as golden:
            await _forever(pipe, golden.url)

    asyncio.run(serve())


def _serve_tap(pipe: Connection, endpoint: str, path: Path) -> None:
    async def serve() -> None:
        with Journal(path) as ledger:
            async with Tap(endpoint, run="bench", variant="Base", ledger=ledger) as tap:
                settle()
                await _forever(pipe, tap.url)

    asyncio.run(serve())


async def _forever(pipe: Connection, url: str) -> None:
    pipe.send(url)
    await asyncio.Event().wait()


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
