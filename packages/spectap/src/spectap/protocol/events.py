"""Reads an answer and its event stream, for the tap and the driver: both must see the same.

This module does not import pydantic, which is slow to import: the driver starts for each turn.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import orjson

from spectap.protocol import limits
from spectap.wording import printable

# Lines end with LF or CR LF, or in a whole stream with CR.
_BLANK_LINE: Final = re.compile(rb"\n\r?\n|\r\r")
_LINE_END: Final = re.compile(rb"\r?\n|\r")
_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"

DONE: Final = object()
"""The event that ends a stream: ``[DONE]``."""

_ENDS: Final = frozenset(
    # OpenAI's, and those of TGI, Mistral and the APIs that gateways translate. Not content_filter,
    # abort, error, repetition, cancelled, timeout: an answer cut short is no whole answer.
    (
        *("stop", "length", "tool_calls", "function_call", "eos", "eos_token"),
        *("stop_sequence", "end_turn", "max_tokens", "model_length", "tool_use"),
    )
)
"""The ``finish_reason`` values of complete answers, in lower case."""

# vLLM renamed the field; servers in between send both. The others are of gateways.
THOUGHTS: Final = ("reasoning", "reasoning_content", "reasoning_details", "thinking")
_CONTENT: Final = (
    *("content", *THOUGHTS),
    *("tool_calls", "function_call", "refusal", "audio"),
)
_ERROR_FIELDS: Final = ("detail", "message", "errors", "msg", "error_msg")
"""The fields, besides OpenAI's ``error``, in which a body without choices may have its error."""
_LONGEST_ERROR: Final = 200


class Events:
    """Cuts a stream into its events."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        """Takes bytes; returns the events that they complete. Raises LimitError."""
        # The buffer was searched before, but its end may be the begin of a blank line.
        searched = max(0, len(self._buffer) - 2)
        self._buffer += data
        events = []
        start = 0
        for end in _ends_of_events(self._buffer, searched):
            events.append(bytes(self._buffer[start:end]))
            start = end
        del self._buffer[:start]
        limits.check("an event", len(self._buffer), limits.EVENT)
        return events

    def rest(self) -> bytes:
        """The bytes after the last complete event."""
        return bytes(self._buffer)


def _ends_of_events(text: bytearray, start: int) -> Iterator[int]:
    """The end of each blank line from ``start`` on."""
    if text.find(b"\r", start) >= 0:
        yield from (match.end() for match in _BLANK_LINE.finditer(text, start))
        return
    # As nearly always, and much faster.
    while (start := text.find(b"\n\n", start) + 2) >= 2:
        yield start


def read(event: bytes) -> Any:
    """Parses an event into its body, a dict, or ``DONE``; None for comments. Raises ValueError.

    The body of an ``event: error`` has its data as ``error``.
    """
    kind = b""
    if event.startswith(b"data: ") and event.find(b"\n") == len(event) - 2 and b"\r" not in event:
        data = event[6:-2]  # nearly every event looks like this
    else:
        lines = _LINE_END.split(event.removeprefix(_BYTE_ORDER_MARK))
        fields = [line.partition(b":") for line in lines]
        kind = b"".join(value.strip() for name, _, value in fields if name == b"event")
        data = b"\n".join(v.removeprefix(b" ") for name, _, v in fields if name == b"data")
    if not data.strip():
        return None
    if data.strip() == b"[DONE]":
        return DONE
    body = parsed(data)
    if kind == b"error":
        return {"error": message(body) if body else data.decode("utf-8", "replace")}
    if not isinstance(body, dict):
        raise ValueError(f"malformed event: {data[:_LONGEST_ERROR]!r}")
    return body


def parsed(data: bytes) -> Any:
    """Parses JSON as clients do; None for anything else."""
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        pass
    try:
        # Python's own takes what JavaScript and others write: halves of characters, NaN, Infinity.
        return json.loads(data.decode())
    except (ValueError, RecursionError):
        return None


def choices_of(body: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The well-formed choices of an answer or an event."""
    choices = body.get("choices")
    return [c for c in choices if isinstance(c, dict)] if isinstance(choices, list) else []


def message_of(choice: Mapping[str, Any]) -> Mapping[str, Any]:
    """The message of a choice, or an event's addition to it. A completion's text becomes one."""
    if "text" in choice:
        return {"content": choice["text"]}
    message = choice.get("delta") or choice.get("message")
    return message if isinstance(message, dict) else {}


def text_of(content: Any) -> str:
    """The text of a message's field; a list's parts are joined."""
    if isinstance(content, list):
        try:
            return "".join(map(text_of, content))
        except RecursionError:
            return ""
    if isinstance(content, dict):
        return text_of(content.get("text") or content.get("thinking"))
    return content if isinstance(content, str) else ""


def has_content(choices: Sequence[Mapping[str, Any]]) -> bool:
    """Whether any of the choices carries output of the model."""
    for choice in choices:
        message = message_of(choice)
        for field in _CONTENT:
            if message.get(field):
                return True
    return False


class Ending:
    """The end of an answer, by what was read of it."""

    def __init__(self) -> None:
        self.done = False
        """Whether ``[DONE]`` has come."""
        self.finish: str | None = None
        """OpenAI's ``finish_reason``; of several choices, one that is not a normal end."""
        self.error: str | None = None
        """The first error, in one line."""
        self._words = ""

    def note(self, body: Mapping[str, Any], choices: Sequence[Mapping[str, Any]]) -> None:
        """Takes what an event, or a whole answer, with these choices says about the end."""
        if error := error_of(body):
            self.fail(f"error in the stream: {error}")
        if not choices and not self._words and not body.get("usage"):
            self._words = f": {message(body)}"
        for choice in choices:
            if choice.get("error"):
                self.fail(f"error in a choice: {message(choice)}")
            reason = choice.get("finish_reason")
            # Some servers send a number, which says nothing.
            if reason and isinstance(reason, str) and reason != "null" and self._ends:
                self.finish = clean(reason)

    def fail(self, reason: str) -> None:
        if self.error is None:
            self.error = clean(reason)

    def problem(self, *, tokens: bool) -> str | None:
        """The reason why an answer with or without ``tokens`` is not complete; None if it is."""
        if self.error:
            return self.error
        if not self._ends:
            return clean(f"cut short: the answer ended for the reason {self.finish!r}")
        if not (self.done or self.finish):
            return clean(f"truncated: the stream ended without [DONE]{self._words}")
        return None if tokens else clean(f"empty: the answer has no token{self._words}")

    @property
    def _ends(self) -> bool:
        return self.finish is None or self.finish.lower() in _ENDS


def error_of(body: Mapping[str, Any]) -> str | None:
    """The error's message, if ``body`` is an error instead of an answer or an event."""
    error = body.get("error")
    if not error and not body.get("choices"):
        fields = (body.get(field) for field in _ERROR_FIELDS)
        error = next(filter(None, fields), None)
    return message(error) if error else None


def message(error: Any) -> str:
    """The message within an error object, or all of it as text."""
    if isinstance(error, dict):
        error = error.get("error") or error
    try:
        return str(error.get("message", error) if isinstance(error, dict) else error)
    except RecursionError:
        return "nested too deeply"


def clean(text: str) -> str:
    """The text in one printable line of at most 200 characters."""
    line = printable(" ".join(text.split()))
    return line if len(line) <= _LONGEST_ERROR else line[: _LONGEST_ERROR - 1] + "…"
