"""One streamed answer: its events and their tokens."""

from typing import Any, Final

import orjson

from spectap import limits
from spectap.events import DONE, Ending, Events, choices_of, has_content, read

_USAGE: Final = b'"usage":'


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
        self.ending = Ending()
        self._strip = strip
        self._usage_only = usage_only
        self._null_usage = null_usage
        self._counts: dict[int, int] = {}
        self._event_count = 0
        self._uncounted = False
        self._events = Events()

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
        events = self._events.feed(data)
        self._event_count += len(events)
        limits.check("the stream", self._event_count, limits.EVENTS, "events")
        passed = [self._read(event, at) for event in events]
        return b"".join(passed) if self._strip else data

    def close(self, at: float) -> bytes:
        """Ends the stream. Returns what was held back."""
        unfinished = self._events.rest()
        if unfinished:
            self._read(unfinished, at)
        return unfinished if self._strip else b""

    def problem(self) -> str | None:
        """Why the answer is none that came whole, if so."""
        return self.ending.problem(tokens=bool(self.chunks or self.output_tokens))

    def _read(self, event: bytes, at: float) -> bytes:
        """Reads an event; returns the bytes to pass on."""
        try:
            body = read(event)
        except ValueError as error:
            self.ending.fail(str(error))
            return event
        if body is None:
            return event
        if body is DONE:
            self.ending.done = True
            return event
        choices, usage = choices_of(body), body.get("usage")
        self.ending.note(body, choices)
        if isinstance(usage, dict):
            self.count(usage, choices, at)
        elif has_content(choices):
            self._uncounted = True
            self.chunks.append((at, 0))
        if not self._strip or not isinstance(usage, dict):
            return event
        if not body.get("choices"):
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
