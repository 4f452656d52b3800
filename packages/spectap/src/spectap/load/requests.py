"""The built-in driver's requests and their replies.

This module does not import pydantic, which is slow to import: the driver starts for each turn.
"""

import argparse
import itertools
import json
import random
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from spectap.names import CLASS_HEADER, PROMPT_HEADER
from spectap.protocol import events
from spectap.protocol.text import (
    CHARACTERS_PER_TOKEN,
    estimated_tokens,
    filled_prompt,
    filling_lines,
    prompt_fields,
)


@dataclass(frozen=True)
class Request:
    """One request for a streamed answer."""

    body: bytes
    """JSON, encoded before the load begins."""
    prompt: str = ""
    """Its name in the set; empty where prompts have no names."""
    prompt_class: str = ""

    @property
    def headers(self) -> dict[str, str]:
        """Headers by which the tap records the request."""
        values = {PROMPT_HEADER: self.prompt, CLASS_HEADER: self.prompt_class}
        return {header: quote(value) for header, value in values.items() if value}


def requests_of(options: argparse.Namespace) -> Iterator[Request]:
    """A file's prompts in order, or such as llmperf makes. Equal options, equal requests."""
    return _named(options) if options.prompts else _filled(options)


def _named(options: argparse.Namespace) -> Iterator[Request]:
    with options.prompts.open(encoding="utf-8") as file:
        prompts = [json.loads(line) for line in file]
    for number, prompt in enumerate(itertools.cycle(prompts)):
        length = prompt["max_tokens"] or options.mean_output_tokens
        tools = {"tools": prompt["tools"]} if prompt["tools"] else {}
        first, *others = prompt["messages"]
        if number >= len(prompts) and isinstance(first["content"], str):
            # Such do not count. Sent again as they are, they would be in a server's cache.
            first = first | {"content": f"{number}: {first['content']}"}
        body = _body(options, [first, *others], length, **tools)
        yield Request(body, prompt["name"], prompt["prompt_class"])


def _filled(options: argparse.Namespace) -> Iterator[Request]:
    chance = random.Random(options.seed)
    lines = filling_lines(options.text.read_text(encoding="utf-8") if options.text else None)

    def positive(mean: int, deviation: int) -> int:
        return max(1, round(chance.gauss(mean, deviation)))

    while True:
        length = positive(options.mean_output_tokens, options.stddev_output_tokens)
        input_tokens = positive(options.mean_input_tokens, options.stddev_input_tokens)
        text = filled_prompt(chance, lines, input_tokens * CHARACTERS_PER_TOKEN, length)
        # The empty system message is llmperf's.
        messages = [{"role": "system", "content": ""}, {"role": "user", "content": text}]
        yield Request(_body(options, messages, length))


def _body(
    options: argparse.Namespace, messages: Sequence[Mapping[str, Any]], length: int, **more: Any
) -> bytes:
    prompt = prompt_fields(options.endpoint_type, messages)
    body = {"model": options.model, **prompt, "stream": True, "max_tokens": length}
    return json.dumps(body | more | options.additional_sampling_params).encode()


class Reply:
    """One streamed reply, measured as llmperf does and joined as a client would.

    Its time begins when the object is created.
    """

    def __init__(self) -> None:
        self._start = time.monotonic()
        self._ttft = self._last = 0.0
        self._count = 0
        self._counted = False
        self._error: tuple[int | None, str] = (None, "")
        self._events, self._ending = events.Events(), events.Ending()
        self._thoughts = self._text = ""
        self._calls: dict[int, dict[str, str]] = {}

    def fail(self, code: int, text: str) -> None:
        """Records the first error: the HTTP status or an error event's code, otherwise -1."""
        if self._error[0] is None:
            self._error = (code, text)

    def take(self, data: bytes) -> None:
        """Takes the next bytes of the event stream. Raises LimitError."""
        for event in self._events.feed(data):
            self._take(event)

    def end(self) -> None:
        self._take(self._events.rest())
        if problem := self._ending.problem(tokens=self._ttft > 0 or self._counted):
            self.fail(-1, problem)

    def _take(self, event: bytes) -> None:
        try:
            body = events.read(event)
        except ValueError as malformed:
            self._ending.fail(str(malformed))
            return
        if body is events.DONE:
            self._ending.done = True
        elif body is not None:
            self._count += 1
            choices = events.choices_of(body)
            self._ending.note(body, choices)
            error, usage = body.get("error"), body.get("usage")
            if isinstance(error, dict) and isinstance(error.get("code"), int):
                self.fail(error["code"], events.message(error))
            if isinstance(usage, dict) and usage.get("completion_tokens"):
                self._counted = True
            if events.has_content(choices):
                self._last = time.monotonic() - self._start
                self._ttft = self._ttft or self._last
            for choice in choices:
                if not choice.get("index"):
                    self._join(events.message_of(choice))

    def _join(self, delta: Mapping[str, Any]) -> None:
        self._text += events.text_of(delta.get("content"))
        # vLLM renamed the field; servers in between send both.
        self._thoughts += events.text_of(delta.get("reasoning") or delta.get("reasoning_content"))
        calls = delta.get("tool_calls")
        for number, fragment in enumerate(calls if isinstance(calls, list) else ()):
            if not isinstance(fragment, dict):
                continue
            index, function = fragment.get("index"), fragment.get("function")
            # Parts of one index are joined, as OpenAI's client does.
            index = index if isinstance(index, int) else number
            call = self._calls.setdefault(index, {"name": "", "arguments": ""})
            function = function if isinstance(function, dict) else {}
            for field in call:
                call[field] += events.text_of(function.get(field))

    def answer(self, prompt: str) -> dict[str, Any] | None:
        """The fields of ``spectap.records.answer.Answer``; None where the reply broke off."""
        if self._error[0] is not None:
            return None
        thoughts = f"<think>{self._thoughts}</think>" if self._thoughts else ""
        return {
            "prompt": prompt,
            "content": thoughts + self._text,
            "tool_calls": [self._calls[index] for index in sorted(self._calls)],
            "finish": self._ending.finish,
        }

    def fields(self) -> dict[str, Any]:
        """Fields that llmperf writes of a request that has ended; times in seconds."""
        code, text = self._error
        seconds = time.monotonic() - self._start if code is None else 0
        calls = "".join(call["name"] + call["arguments"] for call in self._calls.values())
        tokens = estimated_tokens(self._thoughts + self._text + calls)
        return {
            "error_code": code,
            "error_msg": text,
            "inter_token_latency_s": self._last / self._count if tokens else 0,
            "ttft_s": self._ttft,
            "end_to_end_latency_s": seconds,
            "number_output_tokens": tokens,
        }
