"""Scripted servers that send what real ones were seen to send, and know what they sent.

A test gives one coroutine that answers completions. Two servers call it, ``base`` and ``sd``, in a
thread of their own. They speak HTTP through a bare socket, so that nothing between the test and the
tap mends what is sent.
"""

import asyncio
import json
import ssl
import statistics
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Self

GAP = 0.006
"""Seconds between two steps of a good stream."""
TOKENS = 24
STEP = {"base": 1, "sd": 3}
"""Tokens of each step after the first in a good stream."""
DONE = b"data: [DONE]\n\n"


@dataclass(frozen=True)
class Sent:
    """What an answer really was: its tokens, and when the first and the last of them were sent.

    Times are in seconds after the request had come.
    """

    tokens: int
    first: float
    last: float

    @property
    def tpot(self) -> float:
        """Time per output token in milliseconds."""
        return (self.last - self.first) / (self.tokens - 1) * 1000


def usage(total: int, prompt: int = 20, **details: Any) -> dict[str, Any]:
    counts = {"prompt_tokens": prompt, "completion_tokens": total, "total_tokens": prompt + total}
    return counts | details


def chunk(delta: Any, finish: str | None = None, **fields: Any) -> dict[str, Any]:
    """A chunk of a chat completion; ``usage`` is one of the ``fields``."""
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return {
        "id": "c",
        "object": "chat.completion.chunk",
        "model": "m",
        "choices": [choice],
    } | fields


def whole(total: int, prompt: int = 20, **details: Any) -> dict[str, Any]:
    """The last event of a stream, which has the usage of all of it."""
    return {"id": "c", "model": "m", "choices": [], "usage": usage(total, prompt, **details)}


def event(content: Any) -> bytes:
    return b"data: " + json.dumps(content).encode() + b"\n\n"


@dataclass
class Exchange:
    """One request at a server, and its answer."""

    side: str
    number: int
    """Of the server's completions, from 1; 0 of other requests."""
    method: str
    path: str
    headers: Mapping[str, str]
    """By lower-case names."""
    body: bytes
    writer: asyncio.StreamWriter
    sent: list[Sent]
    start: float = field(default_factory=time.monotonic)
    _first: float | None = None
    _last: float = 0.0
    _tokens: int = 0

    @property
    def fields(self) -> dict[str, Any]:
        """The request's JSON."""
        fields: dict[str, Any] = json.loads(self.body)
        return fields

    async def write(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def head(
        self, status: str = "200 OK", kind: str = "text/event-stream", *more: str
    ) -> None:
        lines = [f"HTTP/1.1 {status}", f"Content-Type: {kind}", *more, "Connection: close"]
        await self.write("\r\n".join([*lines, "", ""]).encode())

    async def begin(self, prompt: int = 20, *, counted: bool = True, **role: Any) -> None:
        """The head of a stream, and its first event, which has usage where it is ``counted``."""
        fields: dict[str, Any] = {"usage": usage(0, prompt)} if counted else {}
        await self.head()
        await self.events(chunk({"role": "assistant", "content": ""} | role, **fields))

    async def json(self, body: Any, status: str = "200 OK", *more: str) -> None:
        data = json.dumps(body).encode()
        await self.head(status, "application/json", f"Content-Length: {len(data)}", *more)
        await self.write(data)

    async def events(self, *contents: Any) -> None:
        """Sends them in one write."""
        await self.write(b"".join(map(event, contents)))

    def delivers(self, tokens: int) -> None:
        """Notes that these tokens are sent now."""
        self._last = time.monotonic() - self.start
        self._first = self._first or self._last
        self._tokens += tokens

    async def think(self, tokens: int) -> None:
        """Waits as long as a step takes, whose tokens are not sent."""
        await asyncio.sleep(GAP)
        self.delivers(tokens)

    async def step(self, tokens: int, **fields: Any) -> None:
        """Waits as long as a step takes, and sends its tokens."""
        await asyncio.sleep(GAP)
        self.delivers(tokens)
        await self.events(chunk({"content": "word " * tokens}, **fields))

    async def end(self, *contents: Any) -> None:
        """Sends these and ``[DONE]``; the answer is whole."""
        await self.write(b"".join(map(event, contents)) + DONE)
        self.sent.append(Sent(self._tokens, self._first or 0.0, self._last))

    async def good(self, tokens: int = TOKENS, step: int = 0, prompt: int = 20) -> None:
        """A stream as vLLM's, with usage in each event; ``step`` replaces the side's own."""
        await self.begin(prompt)
        total = 0
        for count in steps(tokens, step or STEP[self.side]):
            total += count
            await self.step(count, usage=usage(total, prompt))
        last = chunk({"content": ""}, "length", usage=usage(tokens, prompt))
        await self.end(last, whole(tokens, prompt))


def steps(tokens: int, step: int) -> Iterator[int]:
    """The tokens of each step. The first has one."""
    yield 1
    for done in range(1, tokens, step):
        yield min(step, tokens - done)


Answer = Callable[[Exchange], Awaitable[None]]


async def models(exchange: Exchange) -> None:
    """Answers what is no completion, as a server without ``/health`` and ``/metrics`` does."""
    if exchange.path.endswith("/models"):
        await exchange.json({"object": "list", "data": [{"id": "m", "object": "model"}]})
    else:
        await exchange.json({"detail": "Not Found"}, "404 Not Found")


def on_sd(answer: Answer, every: int = 1) -> Answer:
    """``answer`` to each completion of ``sd`` of so many, and a good stream to all others."""

    async def either(exchange: Exchange) -> None:
        chosen = exchange.side == "sd" and exchange.number % every == 0
        await (answer if chosen else Exchange.good)(exchange)

    return either


@dataclass
class Servers:
    """Both servers. ``sent`` has the whole answers of each side, ``asked`` counts completions."""

    answer: Answer
    other: Answer = models
    host: str = "127.0.0.1"
    tls: ssl.SSLContext | None = None
    sent: dict[str, list[Sent]] = field(default_factory=lambda: {"base": [], "sd": []})
    asked: Counter[str] = field(default_factory=Counter)
    ports: dict[str, int] = field(default_factory=dict)
    _listening: list[asyncio.Server] = field(default_factory=list)

    def url(self, side: str, path: str = "") -> str:
        name = f"[{self.host}]" if ":" in self.host else "localhost" if self.tls else self.host
        return f"http{'s' * bool(self.tls)}://{name}:{self.ports[side]}{path}"

    def tpot(self, side: str) -> float:
        """Median over the side's answers, in milliseconds."""
        return statistics.median(sent.tpot for sent in self.sent[side])

    def ttft(self, side: str) -> float:
        """Median over the side's answers, in milliseconds."""
        return statistics.median(sent.first * 1000 for sent in self.sent[side])

    async def __aenter__(self) -> Self:
        for side in self.sent:
            serve = partial(self._serve, side)
            server = await asyncio.start_server(serve, self.host, 0, backlog=1024, ssl=self.tls)
            self.ports[side] = server.sockets[0].getsockname()[1]
            self._listening.append(server)
        return self

    async def __aexit__(self, *_: object) -> None:
        for server in self._listening:
            server.close()
        tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _serve(
        self, side: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            first, *lines = head.removesuffix("\r\n\r\n").split("\r\n")
            method, path, _ = first.split(" ", 2)
            headers = {n.lower(): v.strip() for n, _, v in (ln.partition(":") for ln in lines)}
            body = await reader.readexactly(int(headers.get("content-length", 0)))
            completes = method == "POST" and path.partition("?")[0].endswith("/completions")
            self.asked[side] += completes
            number = self.asked[side] if completes else 0
            sent = self.sent[side]
            exchange = Exchange(side, number, method, path, headers, body, writer, sent)
            await (self.answer if completes else self.other)(exchange)
        writer.close()
