"""What a proxy tells of one request on its way, and asks."""

from __future__ import annotations

from benchmark.tap.proxy.http1 import Headers, Request


class Exchange:
    """One request and its answer. This one passes unchanged; a subclass may watch and change it.

    ``request`` is what is sent on. Times are those of ``time.monotonic()``.
    """

    def __init__(self, request: Request) -> None:
        self.request = request

    def sent(self, at: float) -> None:
        """The connection stands, the request goes out."""

    def answered(self, status: int, headers: Headers) -> bool:
        """The head of the answer is here. Returns whether its body may change its length."""
        return False

    def passes(self, body: bytes, at: float) -> bytes:
        """A part of the body, read at that time. Returns what to pass on of it."""
        return body

    def ended(self, at: float) -> bytes:
        """The answer is whole; the client cannot know yet. Returns what to add to its body."""
        return b""

    def broke(self, reason: str, at: float) -> None:
        """No answer came, or only a part of one."""
