"""A server that streams chunks at a steady pace and a client that notes when they come.

Both work on bare sockets, with what is sent written out beforehand: an instrument must cost less
than what it measures, and on few cores every microsecond of theirs is one that the tap waits for.
Both read the same monotonic clock.
"""

from __future__ import annotations

import heapq
import select
import selectors
import socket
import time
from collections.abc import Iterator, Sequence
from multiprocessing.connection import Connection
from urllib.parse import urlsplit

from rehearsal.golden.wire import DONE, Answer, words

TOKENS = 4
_HEAD = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n"
    b"Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
)


class Stream:
    """One answer under way. ``times`` are those at which its chunks so far went out."""

    def __init__(self, connection: socket.socket, name: str, chunks: Sequence[bytes]) -> None:
        self.connection = connection
        self.name = name
        self.times: list[float] = []
        self._chunks = chunks
        self._begun = time.monotonic()
        connection.sendall(_HEAD)

    def due(self, rate: int) -> float:
        """When the next chunk goes out."""
        return self._begun + (len(self.times) + 1) / rate

    def send(self) -> bool:
        """Sends the next chunk; returns whether there is another."""
        chunk = self._chunks[len(self.times)]
        self.times.append(time.monotonic())
        self.connection.sendall(chunk)
        if len(self.times) < len(self._chunks):
            return True
        self.connection.close()
        return False


def serve(pipe: Connection, rate: int, chunks: int) -> None:
    """Answers each request with that many chunks, that many a second. Sends its base URL into the
    pipe, and for whatever comes out of it the times by request id, of all streams since."""
    listening = socket.create_server(("127.0.0.1", 0), backlog=1024)
    pipe.send(f"http://127.0.0.1:{listening.getsockname()[1]}/v1")
    parts = {usage: list(_parts(chunks, usage)) for usage in (False, True)}
    streams: list[Stream] = []
    due: list[tuple[float, int]] = []
    while True:
        wait = max(0.0, due[0][0] - time.monotonic()) if due else None
        # Not epoll, which knows whole milliseconds only.
        ready, _, _ = select.select([listening.fileno(), pipe.fileno()], [], [], wait)
        if listening.fileno() in ready:
            connection, _ = listening.accept()
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            request = _request(connection)
            name, usage = _header(request, b"x-request-id"), b"continuous_usage" in request
            streams.append(Stream(connection, name, parts[usage]))
            heapq.heappush(due, (streams[-1].due(rate), len(streams) - 1))
        if pipe.fileno() in ready:
            pipe.recv()
            pipe.send({stream.name: stream.times for stream in streams})
            streams.clear()
        while due and due[0][0] <= time.monotonic():
            _, index = due[0]
            if streams[index].send():
                heapq.heapreplace(due, (streams[index].due(rate), index))
            else:
                heapq.heappop(due)


def receive(
    pipe: Connection, url: str, names: Sequence[str], delays: Sequence[float], chunks: int
) -> None:
    """Begins a stream of each name after its delay, in seconds; sends the times at which their
    chunks came into the pipe, in the order of the names."""
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
    body = (
        f'{{"model":"Qwen/Qwen3-32B","stream":true,"max_tokens":{chunks},'
        '"messages":[{"role":"user","content":"go"}]}'
    ).encode()
    head = (
        f"POST {parts.path}/chat/completions HTTP/1.1\r\nHost: {parts.netloc}\r\n"
        f"X-Request-Id: {name}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    ).encode()
    connection = socket.create_connection((parts.hostname or "", parts.port or 0))
    connection.sendall(head + body)
    return connection


def _parts(number: int, usage: bool) -> Iterator[bytes]:
    answer = Answer("chatcmpl-0", "Qwen/Qwen3-32B", int(time.time()), chat=True, prompt_tokens=2)
    for index in range(number):
        text, last = words(index * TOKENS, TOKENS), index == number - 1
        event = answer.chunk(text, last, (index + 1) * TOKENS, usage)
        yield _chunk(event + DONE) + b"0\r\n\r\n" if last else _chunk(event)


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def _request(connection: socket.socket) -> bytes:
    """A whole request, as our client and the tap send it."""
    read = b""
    while b"\r\n\r\n" not in read:
        read += connection.recv(65536)
    end = read.index(b"\r\n\r\n") + 4
    while len(read) < end + int(_header(read, b"content-length")):
        read += connection.recv(65536)
    return read


def _header(request: bytes, name: bytes) -> str:
    lines = request.partition(b"\r\n\r\n")[0].split(b"\r\n")
    fields = (line.partition(b":") for line in lines)
    return next(value.strip().decode() for key, _, value in fields if key.lower() == name)
