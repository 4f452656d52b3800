"""A tap between a client and a server, for one test."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

import aiohttp
from aiohttp import web

from spectap.golden.schedule import Step
from spectap.golden.server import GoldenEndpoint
from spectap.records.journal import Journal
from spectap.records.ledger import read_ledger
from spectap.records.record import Record
from spectap.tap.tap import Tap

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class Bench:
    """A tap before ``endpoint`` and a client at both, for one test."""

    def __init__(self, tap: Tap, path: Path, client: aiohttp.ClientSession) -> None:
        self.tap, self.path, self.client = tap, path, client

    async def post(
        self,
        body: dict[str, Any] | bytes,
        path: str = "chat/completions",
        base: str = "",
        **options: Any,
    ) -> tuple[int, bytes]:
        """Status and body of a request through the tap, or to the server at ``base``."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        url = f"{base or self.tap.url}/{path}"
        async with self.client.post(url, data=data, **options) as response:
            return response.status, await response.read()

    def records(self) -> list[Record]:
        return read_ledger(self.path)

    def only(self) -> Record:
        (record,) = self.records()
        return record


@asynccontextmanager
async def bench(endpoint: str, path: Path, stall_seconds: float = 5) -> AsyncIterator[Bench]:
    file = path / "ledger.jsonl"
    with Journal(file) as open_ledger:
        tap = Tap(endpoint, run="r", variant="SD", ledger=open_ledger, stall_seconds=stall_seconds)
        async with tap, aiohttp.ClientSession() as client:
            tap.label("counting", 1)
            yield Bench(tap, file, client)


def golden(*tokens: int, gap: float = 0.005, **options: Any) -> GoldenEndpoint:
    """An endpoint that sends these chunks whatever it is asked for."""
    steps = [Step(gap * (index + 1), count) for index, count in enumerate(tokens)]
    return GoldenEndpoint(lambda prompt, number, length: steps, **options)


def chat(**fields: Any) -> dict[str, Any]:
    messages = [{"role": "user", "content": "say it"}]
    return {"model": "Qwen/Qwen3-32B", "messages": messages, "stream": True} | fields


def completion(**fields: Any) -> dict[str, Any]:
    return {"model": "Qwen/Qwen3-32B", "prompt": "say it", "stream": True} | fields


@asynccontextmanager
async def server(handler: Handler) -> AsyncIterator[str]:
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handler)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
    finally:
        await runner.cleanup()


def parts(*parts: bytes | float, **headers: str) -> Handler:
    """Answers with these bytes, an event stream by default, and pauses of so many seconds."""

    async def answer(request: web.Request) -> web.StreamResponse:
        kind = {"Content-Type": "text/event-stream"}
        response = web.StreamResponse(
            headers=kind | {name.replace("_", "-"): value for name, value in headers.items()}
        )
        await response.prepare(request)
        for part in parts:
            if isinstance(part, bytes):
                await response.write(part)
            else:
                await asyncio.sleep(part)
        return response

    return answer


@asynccontextmanager
async def sockets(serve: Serve) -> AsyncIterator[str]:
    """The base URL of a server that calls ``serve`` with each connection, and waits for its end."""
    serving: set[asyncio.Task[None]] = set()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        serving.add(cast("asyncio.Task[None]", asyncio.current_task()))
        try:
            # A client may leave at any time.
            with contextlib.suppress(asyncio.IncompleteReadError, OSError):
                await serve(reader, writer)
        finally:
            await _close(writer)

    async with await asyncio.start_server(connected, "127.0.0.1", 0) as listening:
        yield f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/v1"
        await asyncio.gather(*serving)


@asynccontextmanager
async def connection(url: str) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """A client's bare socket."""
    parts = urlsplit(url)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
    try:
        async with asyncio.timeout(30):
            yield reader, writer
    finally:
        await _close(writer)


async def _close(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()


async def eventually(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0.01)
