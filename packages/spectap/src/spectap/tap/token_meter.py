"""One streamed answer: its events and their tokens."""

import re
from collections.abc import Iterator
from typing import Any, Final

import orjson

from spectap import limits
from spectap.printing import printable

# Servers end lines with LF or CR LF.
_BLANK_LINE: Final = re.compile(rb"\r?\n\r?\n")

_DONE: Final = b"[DONE]"
_USAGE: Final = b'"usage":'
_LONGEST_ERROR: Final = 200


def _ends_of_events(text: bytearray, start: int) -> Iterator[int]:
    """The end of each blank line from ``start`` on."""
    if text.find(b"\r", start) >= 0:
        yield from (match.end() for match in _BLANK_LINE.finditer(text, start))
        return
    # As nearly always, and much faster.
    while (start := text.find(b"\n\n", start) + 2) >= 2:
        yield start


def event_data(event: bytes) -> bytes | None:
    """The data lines of an event, joined by a newline; None without any, as in a comment."""
    if event.startswith(b"data: ") and event.find(b"\n") == len(event) - 2 and b"\r" not in event:
        return event[6:-2]  # nearly every event looks like this
    lines = [line.removesuffix(b"\r") for line in event.split(b"\n")]
    lines = [line for line in lines if line.startswith(b"data") and line[4:5] in b":"]
    if not lines:
        return None
    return b"\n".join(line[6:] if line[5:6] == b" " else line[5:] for line in lines)


class Meter:
    """Counts the tokens of a stream as it passes, and removes what the client did not ask for."""

    def __init__(self, *, strip: bool, usage_only: bool, null_usage: bool) -> None:
        """``strip`` removes the usage from events: the tap asked for it, and not the client.

        ``usage_only`` leaves the last event, which carries nothing else: the client asked for it.
        ``null_usage`` replaces usage by null, as vLLM does in events of completions.
        """
        self.chunks: list[tuple[float, int]] = []
        """Seconds after the request was sent, and tokens, of each event that carried tokens."""
        self.prompt_tokens: int | None = None
        self.output_tokens: int | None = None
        self.error: str | None = None
        self.done = False
        """Whether ``[DONE]`` has come."""
        self._strip = strip
        self._usage_only = usage_only
        self._null_usage = null_usage
        self._counts: dict[int, int] = {}
        self._event_count = 0
        self._uncounted = False
        self._buffer = bytearray()

    @property
    def per_chunk(self) -> bool:
        """Whether the server counted the tokens of every chunk, and the counts add up."""
        if self._uncounted or not self.chunks:
            return False
        return sum(tokens for _, tokens in self.chunks) == self.output_tokens

    def feed(self, data: bytes, at: float) -> bytes:
        """Takes what was read ``at`` seconds after the request was sent. Returns what to pass on.

        An incomplete event is held back, unless there is nothing to strip. Raises LimitError.
        """
        events = self._complete(data)
        self._event_count += len(events)
        limits.check("the stream", self._event_count, limits.EVENTS, "events")
        passed = [self._read(event, at) for event in events]
        return b"".join(passed) if self._strip else data

    def close(self, at: float) -> bytes:
        """Ends the stream. Returns what was held back."""
        unfinished = bytes(self._buffer)
        if unfinished:
            self._read(unfinished, at)
        if not self.done:
            self._fail("truncated: the stream ended without [DONE]")
        return unfinished if self._strip else b""

    def _complete(self, data: bytes) -> list[bytes]:
        """The events that these bytes complete. Each byte is searched once."""
        # The buffer was searched before, but its end may be the first half of a blank line.
        searched = max(0, len(self._buffer) - 3)
        self._buffer += data
        events = []
        start = 0
        for end in _ends_of_events(self._buffer, searched):
            events.append(bytes(self._buffer[start:end]))
            start = end
        del self._buffer[:start]
        limits.check("an event", len(self._buffer), limits.EVENT)
        return events

    def _read(self, event: bytes, at: float) -> bytes:
        """Reads an event; returns the bytes to pass on."""
        data = event_data(event)
        if data is None:
            return event
        if data.strip() == _DONE:
            self.done = True
            return event
        try:
            body = orjson.loads(data)
        except orjson.JSONDecodeError:
            body = None
        if not isinstance(body, dict):
            self._fail(f"malformed event: {data[:_LONGEST_ERROR]!r}")
            return event
        if body.get("error"):
            self._fail(f"error in the stream: {message(body)}")
        choices, usage = body.get("choices"), body.get("usage")
        if isinstance(usage, dict):
            self.count(usage, choices, at)
        elif isinstance(choices, list) and any(map(_has_content, choices)):
            self._uncounted = True
            self.chunks.append((at, 0))
        if not self._strip or not isinstance(usage, dict):
            return event
        if choices == []:
            return event if self._usage_only else b""
        return without_usage(event, self._null_usage)

    def count(self, usage: dict[str, Any], choices: Any = None, at: float = 0.0) -> None:
        """Counts a usage: of one event with its ``choices``, or of a whole answer, without any."""
        total, prompt = usage.get("completion_tokens"), usage.get("prompt_tokens")
        if isinstance(prompt, int):
            self.prompt_tokens = prompt
        if not isinstance(total, int):
            return
        if not choices or not isinstance(choices, list):
            self.output_tokens = total
            return
        # With several choices, each event has the count of its own choice.
        index = choices[0].get("index") if isinstance(choices[0], dict) else None
        if not isinstance(index, int):
            index = 0
        new = total - self._counts.get(index, 0)
        self._counts[index] = total
        self.output_tokens = sum(self._counts.values())
        if new > 0:
            self.chunks.append((at, new))

    def _fail(self, reason: str) -> None:
        if self.error is None:
            self.error = clean(reason)


def without_usage(event: bytes, null: bool) -> bytes:
    """Removes the usage from an event, or makes it ``null``, where it is the last field.

    All other bytes stay the server's. An event of another shape is returned as it is: an additional
    field does no harm.
    """
    start, end = event.rfind(_USAGE), event.rfind(b"}")
    if start < 0 or event[end + 1 :].strip():
        return event
    try:
        usage = orjson.loads(event[start + len(_USAGE) : end])
    except orjson.JSONDecodeError:
        return event
    if not isinstance(usage, dict):
        return event
    if null:
        return event[: start + len(_USAGE)] + b"null" + event[end:]
    return event[:start].rstrip().removesuffix(b",") + event[end:]


def message(body: Any) -> str:
    """The message of an OpenAI-style error body, or the body itself."""
    error = body.get("error", body) if isinstance(body, dict) else body
    return str(error.get("message", error) if isinstance(error, dict) else error)


def clean(text: str) -> str:
    """The text in one printable line of at most 200 characters."""
    line = printable(" ".join(text.split()))
    return line if len(line) <= _LONGEST_ERROR else line[: _LONGEST_ERROR - 1] + "…"


def _has_content(choice: Any) -> bool:
    if not isinstance(choice, dict):
        return False
    delta = choice.get("delta")
    if not isinstance(delta, dict):
        return bool(choice.get("text"))
    return any(value for key, value in delta.items() if key != "role")
