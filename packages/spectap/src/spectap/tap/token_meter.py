"""Meters a streamed answer: its events and their tokens."""

import json
from collections.abc import Sequence
from typing import Any, Final

import orjson

from spectap.protocol import events, limits
from spectap.protocol.events import (
    DONE,
    Ending,
    Events,
    choices_of,
    has_content,
    message_of,
    read,
    text_of,
)
from spectap.protocol.limits import whole

_USAGE: Final = b'"usage":'


class Meter:
    """Counts the tokens of a stream as it passes, and removes what the client did not ask for."""

    def __init__(self, *, strip: bool, usage_only: bool, null_usage: bool) -> None:
        """``strip`` removes the usage from events, because the tap asked for it and the client did
        not.

        ``usage_only`` keeps the last event, which carries usage alone: the client asked for that.
        ``null_usage`` replaces usage by null, as vLLM does in events of completions.
        """
        self.chunks: list[tuple[float, int]] = []
        """Each event with tokens: seconds after the request was sent, and its tokens."""
        self.prompt_tokens: int | None = None
        self.ending = Ending()
        self.model: Any = None
        """The model that the answer names."""
        self.characters = 0
        """Characters of the answer's text, thoughts and calls of tools not included."""
        self.thinks = False
        """Whether the first event with content holds a thought."""
        self.last: Any = None
        """The body of the last event, which has the usage or the reason for the end."""
        self.before_last: Any = None
        self._strip = strip
        self._usage_only = usage_only
        self._null_usage = null_usage
        self._counts: dict[int, int] = {}
        self._usage: dict[str, Any] = {}
        self._stated: tuple[int | None, int] | None = None
        self._event_count = 0
        self._events = Events()
        self._uncounted = self._fell = self._behind = False
        self._unraised = 0

    @property
    def per_chunk(self) -> bool:
        """Whether the server counted the tokens of every chunk and the counts add up."""
        if self._uncounted or self._doubtful or not self.chunks:
            return False
        return sum(tokens for _, tokens in self.chunks) == self.output_tokens

    @property
    def output_tokens(self) -> int | None:
        """The tokens of the answer by the server's last count; None where it cannot be true.

        A count is of all tokens so far. So it never falls, and each event with content has one.
        """
        running = None if self._behind or not self._counts else sum(self._counts.values())
        total, after = self._stated or (running, len(self.chunks))
        if running is not None and after < len(self.chunks):
            total = running
        events = len(self.chunks) - (0 if self._doubtful else self._unraised)
        fewest = max(1, events, sum(tokens for _, tokens in self.chunks))
        if total is None or total < fewest or (self._doubtful and total == running):
            return None
        return total

    @property
    def cached_tokens(self) -> int | None:
        """Tokens of the prompt in the server's cache, by the last usage."""
        details = self._usage.get("prompt_tokens_details")
        stated = details if isinstance(details, dict) else {}
        return whole(stated.get("cached_tokens", self._usage.get("prompt_cache_hit_tokens")))

    @property
    def hidden_tokens(self) -> int:
        """Tokens of thoughts that no event brought, by the last usage."""
        details = self._usage.get("completion_tokens_details")
        fields = details if isinstance(details, dict) else self._usage
        reasoning = whole(fields.get("reasoning_tokens")) or 0
        if not reasoning or self.thinks:
            return 0
        return reasoning if len(self.chunks) <= (self.output_tokens or 0) - reasoning else 0

    @property
    def _doubtful(self) -> bool:
        """Whether counts were of something else than all tokens so far, such as of one step.

        A few counts may stay equal: SGLang sends a step that has a thought and text as two events.
        """
        return self._fell or 2 * self._unraised > len(self.chunks)

    def feed(self, data: bytes, at: float) -> bytes:
        """Takes bytes that came ``at`` seconds after the request was sent. Returns what to pass on.

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
        """The reason why the answer is not complete, if so."""
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
        self.model = self.model or body.get("model")
        self.before_last, self.last = self.last, body
        self.count(usage if isinstance(usage, dict) else None, choices, at)
        if not self._strip or not isinstance(usage, dict):
            return event
        if not body.get("choices"):
            return event if self._usage_only else self._timings(body)
        return without_usage(event, self._null_usage)

    def _timings(self, body: dict[str, Any]) -> bytes:
        """The event of llama.cpp's timings, which come with the usage that the tap asks for.

        It has a choice, which a client that did not ask for usage may rely on.
        """
        if "timings" not in body:
            return b""
        added: dict[str, Any] = {"text": ""} if self._null_usage else {"delta": {}}
        body["choices"] = [{"index": 0, **added, "finish_reason": None}]
        del body["usage"]
        return b"data: " + json.dumps(body).encode() + b"\n\n"

    def count(
        self, usage: dict[str, Any] | None, choices: Sequence[dict[str, Any]] = (), at: float = 0.0
    ) -> None:
        """Counts an event with its ``choices``, or without choices the usage of a whole answer."""
        total = None
        if usage is not None:
            total, prompt = whole(usage.get("completion_tokens")), usage.get("prompt_tokens")
            self._usage, self.prompt_tokens = usage, whole(prompt) or self.prompt_tokens
        if not choices:
            self._stated = self._stated if usage is None else (total, len(self.chunks))
            return
        content = message_of(choices[0]).get("content")
        if content:
            self.characters += len(content if isinstance(content, str) else text_of(content))
        # With several choices, each event has the count of its own choice.
        index = choices[0].get("index")
        if not isinstance(index, int):
            index = 0
        new = None if total is None else total - self._counts.get(index, 0)
        if new is None or new <= 0 or self._uncounted:
            if not has_content(choices):
                if usage is not None and self.chunks and len(self._counts) < 2:
                    self._stated = (total, len(self.chunks))
                return
            self._fell = self._fell or (new is not None and new < 0)
            self._behind = new is None
            self._uncounted = self._uncounted or self._fell or self._behind
            self._unraised += new == 0
        if total is not None:
            self._counts[index] = total
        if not self.chunks:
            message = message_of(choices[0])
            self.thinks = any(map(message.get, events.THOUGHTS))
        self.chunks.append((at, max(0, new or 0)))


def without_usage(event: bytes, null: bool) -> bytes:
    """Removes the usage from an event, or makes it ``null``, where it is the last field.

    All other bytes stay the server's. An event of another shape is returned as it is, because an
    additional field does no harm.
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
