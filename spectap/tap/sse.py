"""Server-sent events from a byte stream that may be cut anywhere, even inside a character."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from spectap import limits

# Two line ends in a row, each "\r\n", "\n" or "\r". A "\r" at the end of what has arrived may be
# the first half of "\r\n", so it counts only once the next byte is known.
_LINE_END: Final = rb"(?:\r\n|\n|\r(?=[^\n]))"
_BLANK_LINE: Final = re.compile(_LINE_END + _LINE_END)
_LINES: Final = re.compile(rb"\r\n|\n|\r")


class Event(NamedTuple):
    """One event."""

    raw: bytes
    """Its bytes, blank line included."""
    data: bytes | None
    """Its data lines, joined by a newline; None without any, as in a comment."""


class Parser:
    """Collects bytes, and returns each event when it is complete.

    Every byte is searched once, however long an event is and however small its parts are.
    """

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[Event]:
        """Takes the bytes of one read. Returns the events that they complete.

        Raises LimitError where an event is longer than ``limits.EVENT``.
        """
        searched = 0
        text: bytes | bytearray = data
        if self._buffer:
            # The buffer was searched before, but its end may be the first half of a blank line.
            searched = max(0, len(self._buffer) - 3)
            self._buffer += data
            text = self._buffer
        events = []
        start = 0
        for end in _ends_of_events(text, searched):
            raw = bytes(text[start:end])
            events.append(Event(raw, _data(raw)))
            start = end
        if text is data:
            self._buffer += data[start:]
        elif start:
            del self._buffer[:start]
        limits.check("an event", len(self._buffer), limits.EVENT)
        return events

    @property
    def pending(self) -> bytes:
        """What has come of an incomplete event."""
        return bytes(self._buffer)

    def close(self) -> list[Event]:
        """Ends the stream. Returns the event whose blank line never came, if there is one."""
        rest = self.pending
        self._buffer.clear()
        return [Event(rest, _data(rest))] if rest else []


def _ends_of_events(text: bytes | bytearray, start: int) -> Iterator[int]:
    """The end of each blank line from ``start`` on."""
    if text.find(b"\r", start) >= 0:
        yield from (match.end() for match in _BLANK_LINE.finditer(text, start))
        return
    # As nearly always, and much faster.
    while (start := text.find(b"\n\n", start) + 2) >= 2:
        yield start


def _data(raw: bytes) -> bytes | None:
    if raw.startswith(b"data: ") and raw.find(b"\n") == len(raw) - 2 and b"\r" not in raw:
        return raw[6:-2]  # nearly every event looks like this
    lines = [line for line in _LINES.split(raw) if line.startswith(b"data") and line[4:5] in b":"]
    if not lines:
        return None
    return b"\n".join(line[6:] if line[5:6] == b" " else line[5:] for line in lines)
