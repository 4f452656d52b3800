"""Counts the tokens of one streamed answer, and removes what the client did not ask for."""

from __future__ import annotations

from typing import Any, Final

import orjson

from spectap import limits
from spectap.printing import printable
from spectap.tap.sse import Event, Parser

_DONE: Final = b"[DONE]"
_USAGE: Final = b'"usage":'
_LONGEST_ERROR: Final = 200


class Meter:
    """Reads a stream as it passes."""

    def __init__(self, *, strip: bool, usage_only: bool, null_usage: bool) -> None:
        """How much of the usage is for the client.

        ``strip``: remove it from events, because the tap asked for it and not the client.
        ``usage_only``: keep the last event, which carries nothing else, because the client asked
        for it. ``null_usage``: write ``"usage":null`` where it is removed, as vLLM does in events
        of completions, but not of chats.
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
        self._counted = self._events = 0
        self._uncounted = False
        self._parser = Parser()

    @property
    def per_chunk(self) -> bool:
        """Whether the server counted the tokens of every chunk, and the counts add up."""
        if self._uncounted or not self.chunks:
            return False
        return sum(tokens for _, tokens in self.chunks) == self.output_tokens

    def feed(self, data: bytes, at: float) -> bytes:
        """Takes what was read ``at`` seconds after the request was sent. Returns what to pass on.

        An incomplete event is kept back: no client can read half an event, and only its end shows
        whether to pass it on. With nothing to strip, everything is passed on at once. Raises
        LimitError.
        """
        events = self._parser.feed(data)
        self._events += len(events)
        limits.check("the stream", self._events, limits.EVENTS, "events")
        passed = [self._take(event, at) for event in events]
        return b"".join(passed) if self._strip else data

    def close(self, at: float) -> bytes:
        """Ends the stream. Returns what was kept back."""
        rest = self._parser.pending
        for event in self._parser.close():
            self._take(event, at)
        if not self.done and self.error is None:
            self.error = "truncated: the stream ended without [DONE]"
        return rest if self._strip else b""

    def count_whole(self, usage: dict[str, Any]) -> None:
        """Counts the usage of an answer that was not streamed."""
        self._count(usage, None, 0.0)

    def _take(self, event: Event, at: float) -> bytes:
        if event.data is None:
            return event.raw
        if event.data.strip() == _DONE:
            self.done = True
            return event.raw
        try:
            body = orjson.loads(event.data)
        except orjson.JSONDecodeError:
            body = None
        if not isinstance(body, dict):
            self._fail(f"malformed event: {event.data[:_LONGEST_ERROR]!r}")
            return event.raw
        return self._take_json(event, body, at)

    def _take_json(self, event: Event, body: dict[str, Any], at: float) -> bytes:
        if body.get("error"):
            self._fail(f"error in the stream: {message(body)}")
        choices, usage = body.get("choices"), body.get("usage")
        if isinstance(usage, dict):
            self._count(usage, choices, at)
        elif isinstance(choices, list) and any(map(_has_content, choices)):
            self._uncounted = True
            self.chunks.append((at, 0))
        if not self._strip or not isinstance(usage, dict):
            return event.raw
        if choices == []:
            return event.raw if self._usage_only else b""
        return without_usage(event.raw, self._null_usage)

    def _count(self, usage: dict[str, Any], choices: Any, at: float) -> None:
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
        self._counted += new
        self.output_tokens = self._counted
        if new > 0:
            self.chunks.append((at, new))

    def _fail(self, reason: str) -> None:
        if self.error is None:
            self.error = clean(reason)


def without_usage(raw: bytes, null: bool) -> bytes:
    """Removes the usage from an event, or makes it ``null``, where it is the last field.

    Bytes are cut out, and the event is not written anew, so that the rest is exactly the server's.
    An event of another shape is returned as it is: an additional field does no harm.
    """
    start, end = raw.rfind(_USAGE), raw.rfind(b"}")
    if start < 0 or raw[end + 1 :].strip():
        return raw
    try:
        usage = orjson.loads(raw[start + len(_USAGE) : end])
    except orjson.JSONDecodeError:
        return raw
    if not isinstance(usage, dict):
        return raw
    if null:
        return raw[: start + len(_USAGE)] + b"null" + raw[end:]
    return raw[:start].rstrip().removesuffix(b",") + raw[end:]


def message(body: Any) -> str:
    """What an OpenAI-style error body says, or the body itself."""
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
