"""One streamed reply: measured as llmperf measures it, and put together as a client would."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Any

from spectap.load import texts


class Reply:
    """What comes back for one request, which is sent when this is made."""

    def __init__(self) -> None:
        self._start = time.monotonic()
        self._ttft = self._last = 0.0
        self._events = 0
        self._error: tuple[int | None, str] = (None, "")
        self._ended = False
        self._finish: str | None = None
        self._thoughts = self._text = ""
        self._calls: dict[int, dict[str, str]] = {}

    def fail(self, code: int, text: str) -> None:
        """Notes an error: the HTTP status or the code of an error event, otherwise -1."""
        self._error = (code, text)

    def take(self, line: bytes) -> None:
        """Takes a line of the event stream.

        Raises ValueError, LookupError, TypeError or AttributeError for an event of another shape.
        """
        field, _, data = line.strip().partition(b":")
        data = data.strip()
        if field != b"data" or not data:
            return
        if data == b"[DONE]":
            self._ended = True
            return
        self._events += 1
        body = json.loads(data)
        if "error" in body:
            self.fail(int(body["error"].get("code") or -1), str(body["error"].get("message")))
        elif body["choices"]:  # some servers send an event without one, about prompt or usage
            self._take(body["choices"][0])

    def _take(self, choice: Mapping[str, Any]) -> None:
        delta = choice["delta"]
        text = delta.get("content") or ""
        # vLLM renamed the field; servers in between send both.
        thought = delta.get("reasoning") or delta.get("reasoning_content") or ""
        calls = delta.get("tool_calls") or ()
        if text or thought or calls:
            self._last = time.monotonic() - self._start
            self._ttft = self._ttft or self._last
        self._text += text
        self._thoughts += thought
        for place, part in enumerate(calls):
            index = part.get("index")
            self._call(index if isinstance(index, int) else place, part.get("function") or {})
        reason = choice.get("finish_reason")
        if isinstance(reason, str):  # some servers send a number, which says nothing
            self._finish = reason or self._finish

    def _call(self, index: int, part: Mapping[str, str | None]) -> None:
        """Adds a part of a tool call: parts of one index are joined, as OpenAI's client does."""
        call = self._calls.setdefault(index, {"name": "", "arguments": ""})
        for field in call:
            call[field] += part.get(field) or ""

    def answer(self, prompt: str) -> dict[str, Any] | None:
        """The fields of ``spectap.answer.Answer``; None where the reply did not come whole."""
        if self._error[0] is not None or not (self._ended or self._finish):
            return None
        thoughts = f"<think>{self._thoughts}</think>" if self._thoughts else ""
        return {
            "prompt": prompt,
            "content": thoughts + self._text,
            "tool_calls": [self._calls[index] for index in sorted(self._calls)],
            "finish": self._finish,
        }

    def fields(self, input_tokens: int) -> dict[str, Any]:
        """What llmperf writes of one request. To be asked when the reply has ended."""
        code, text = self._error
        whole = time.monotonic() - self._start if code is None else 0
        called = "".join(call["name"] + call["arguments"] for call in self._calls.values())
        tokens = texts.tokens(self._thoughts + self._text + called)
        return {
            "error_code": code,
            "error_msg": text,
            "inter_token_latency_s": self._last / self._events if tokens else 0,
            "ttft_s": self._ttft,
            "end_to_end_latency_s": whole,
            "request_output_throughput_token_per_s": tokens / whole if whole else 0,
            "number_total_tokens": input_tokens + tokens,
            "number_output_tokens": tokens,
            "number_input_tokens": input_tokens,
        }
