"""How a proxy reports the events of one request, and asks what to pass on."""

from __future__ import annotations

from spectap.tap.proxy.http1 import Headers, Request


class Exchange:
    """One request and its answer, which pass unchanged. A subclass may record and change them.

    ``request`` is what is sent on. Times are those of ``time.monotonic()``.
    """

    def __init__(self, request: Request) -> None:
        self.request = request

    def sent(self, at: float) -> None:
        """The connection is open and the request goes out."""

    def answered(self, status: int, headers: Headers) -> bool:
        """The head of the answer has come. Returns whether the length of the body may change."""
        return False

    def passes(self, body: bytes, at: float) -> bytes:
        """A part of the body was read. Returns what to pass on.

        Raises LimitError where that is too much; the answer then is broken off.
        """
        return body

    def ended(self, at: float) -> bytes:
        """The answer is complete, which the client cannot know yet. Returns what to add to it."""
        return b""

    def broke(self, reason: str, at: float) -> None:
        """No answer came, or only a part of it."""
