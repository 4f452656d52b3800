"""A server on bare sockets whose streams go in step, or each at a pace of its own.

``python -m benchmarks.paced --step 0.05 --events 24 [--staggered]``

It prints its base URL. It costs less than what it serves, and keeps its own record of when it
received a request and when it sent each event, at ``GET /record``, which empties it. An answer's
first event has one token, as a prefill does, and each further one has ``TOKENS``: so formulas that
divide by all tokens but one, or by all but the first event's, agree.
"""

import argparse
import gc
import heapq
import json
import random
import selectors
import socket
import time
from collections import deque
from dataclasses import dataclass, field
from typing import Any, Final

TOKENS: Final = 4
MODEL: Final = "paced-model"

_HEAD: Final = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
_CHUNKED: Final = _HEAD + b"Transfer-Encoding: chunked\r\n\r\n"


@dataclass
class _Stream:
    """One answer under way."""

    connection: "_Connection"
    name: str
    """The request's id."""
    received: float
    events: list[bytes]
    chance: float
    """Its place between two steps, where streams do not go in step."""
    sent: list[float] = field(default_factory=list)


class _Connection:
    def __init__(self, socket_: socket.socket) -> None:
        self.socket, self.read, self.stream = socket_, b"", False


class _Server:
    def __init__(self, step: float, events: int, staggered: bool) -> None:
        self._step, self._staggered = step, staggered
        self._plain, self._counted = (_events(events, counted) for counted in (False, True))
        self._chance = random.Random(0)
        self._due: list[tuple[float, int, _Stream]] = []
        self._number = 0
        self._ended: deque[_Stream] = deque()
        self._selector = selectors.DefaultSelector()
        self._listening = socket.create_server(("127.0.0.1", 0), backlog=2048)
        self._listening.setblocking(False)
        self._selector.register(self._listening, selectors.EVENT_READ)
        self._begun = time.monotonic()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._listening.getsockname()[1]}/v1"

    def serve(self) -> None:
        gc.freeze()
        gc.disable()
        while True:
            wait = max(0.0, self._due[0][0] - time.monotonic()) if self._due else None
            ready = self._selector.select(wait)
            now = time.monotonic()  # all that is readable has come by now
            for key, _ in ready:
                if key.data is None:
                    self._accept()
                else:
                    self._read(key.data, now)
            while self._due and self._due[0][0] <= time.monotonic():
                self._send(*heapq.heappop(self._due))

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listening.accept()
            except BlockingIOError:
                return
            client.setblocking(False)
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection = _Connection(client)
            self._selector.register(client, selectors.EVENT_READ, connection)
            self._read(connection, time.monotonic())

    def _read(self, connection: _Connection, now: float) -> None:
        try:
            data = connection.socket.recv(262144)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._selector.unregister(connection.socket)
            connection.socket.close()
            return
        connection.read += data
        head, separator, body = connection.read.partition(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0] or 0)
        if separator and len(body) >= length:
            connection.read = b""
            self._answer(connection, head, body, now)

    def _answer(self, connection: _Connection, head: bytes, body: bytes, now: float) -> None:
        if not head.startswith(b"POST"):
            answer = json.dumps(self._get(head)).encode()
            lines = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n"
            connection.socket.setblocking(True)
            connection.socket.sendall(lines % len(answer) + answer)
            connection.socket.setblocking(False)
            return
        counted = b"continuous_usage_stats" in body
        events = self._counted if counted else self._plain
        name = head.lower().partition(b"x-request-id: ")[2].partition(b"\r")[0].decode()
        stream = _Stream(connection, name, now, events, self._chance.random())
        # Its first token comes a whole step after the one that is under way.
        steps = 1 + (now - self._begun) // self._step + 1
        due = now + self._step * (1 + stream.chance) if self._staggered else self._at(steps)
        self._push(due, stream)

    def _at(self, steps: float) -> float:
        return self._begun + steps * self._step

    def _get(self, head: bytes) -> Any:
        if b"/record" in head.split(b" ")[1]:
            record = [(s.received, s.sent, s.name) for s in self._ended]
            self._ended.clear()
            return record
        return {"object": "list", "data": [{"id": MODEL, "object": "model", "owned_by": "paced"}]}

    def _push(self, due: float, stream: _Stream) -> None:
        self._number += 1
        heapq.heappush(self._due, (due, self._number, stream))

    def _send(self, due: float, _: int, stream: _Stream) -> None:
        part = stream.events[len(stream.sent)]
        stream.sent.append(time.monotonic())
        try:
            stream.connection.socket.send(part)
        except OSError:
            return
        if len(stream.sent) == len(stream.events):
            self._ended.append(stream)
        else:
            self._push(due + self._step, stream)


def _events(count: int, counted: bool) -> list[bytes]:
    """What is written at each step; head and end go out with the first and the last event."""
    encoded = []
    for number in range(count):
        tokens = 1 + number * TOKENS
        text = " one two six ten" if number else " go"
        choice = {"index": 0, "delta": {"content": text}, "finish_reason": None}
        if number == count - 1:
            choice["finish_reason"] = "stop"
        event = _event([choice], tokens if counted else None)
        if number == count - 1:
            event += _event([], tokens) + b"data: [DONE]\n\n"
        encoded.append(b"%x\r\n%b\r\n" % (len(event), event))
    return [_CHUNKED + encoded[0], *encoded[1:-1], encoded[-1] + b"0\r\n\r\n"]


def _event(choices: list[dict[str, Any]], tokens: int | None) -> bytes:
    body = {"id": "chatcmpl-paced", "object": "chat.completion.chunk", "created": 1}
    body |= {"model": MODEL, "choices": choices}
    if tokens is not None:
        counts = {"prompt_tokens": 16, "completion_tokens": tokens, "total_tokens": 16 + tokens}
        body |= {"usage": counts}
    return b"data: " + json.dumps(body, separators=(",", ":")).encode() + b"\n\n"


def main() -> None:
    """Serves until it is ended."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--step", type=float, default=0.05, help="seconds between two events")
    parser.add_argument("--events", type=int, default=24)
    parser.add_argument("--staggered", action="store_true")
    arguments = parser.parse_args()
    server = _Server(arguments.step, arguments.events, arguments.staggered)
    print(server.url, flush=True)
    server.serve()


if __name__ == "__main__":
    main()
