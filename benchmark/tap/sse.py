"""Server-sent events from a byte stream that may be cut anywhere, even inside a character."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

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
    """Collects bytes, and returns each event when it is complete."""

    def __init__(self) -> None:
        self._buffer = b""

    def feed(self, data: bytes) -> list[Event]:
        """Takes the bytes of one read. Returns the events that they complete."""
        # The buffer was searched before, but its end may be the first half of a blank line.
        searched = max(0, len(self._buffer) - 3)
        data = self._buffer + data
        events = []
        start = 0
        while (end := _end_of_event(data, searched)) is not None:
            raw = data[start:end]
            events.append(Event(raw, _data(raw)))
            start = searched = end
        self._buffer = data[start:]
        return events

    @property
    def pending(self) -> bytes:
        """What has come of an incomplete event."""
        return self._buffer

    def close(self) -> list[Event]:
        """Ends the stream. Returns the event whose blank line never came, if there is one."""
        rest, self._buffer = self._buffer, b""
        return [Event(rest, _data(rest))] if rest else []


def _end_of_event(data: bytes, start: int) -> int | None:
    """The end of the first blank line at or after ``start``."""
    if b"\r" not in data:  # as nearly always, and much faster
        found = data.find(b"\n\n", start)
        return found + 2 if found >= 0 else None
    match = _BLANK_LINE.search(data, start)
    return match.end() if match else None


def _data(raw: bytes) -> bytes | None:
    if raw.startswith(b"data: ") and raw.find(b"\n") == len(raw) - 2 and b"\r" not in raw:
        return raw[6:-2]  # nearly every event looks like this
    lines = [line for line in _LINES.split(raw) if line.startswith(b"data") and line[4:5] in b":"]
    if not lines:
        return None
    return b"\n".join(line[6:] if line[5:6] == b" " else line[5:] for line in lines)
