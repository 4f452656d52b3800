"""The built-in driver's requests and their replies.

No pydantic here: the driver starts for each turn, and importing pydantic takes a while.
"""

import argparse
import itertools
import json
import random
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

from spectap import events
from spectap.names import CLASS_HEADER, PROMPT_HEADER
from spectap.protocol import prompt_fields

CHARACTERS_PER_TOKEN: Final = 4
"""An estimate: the built-in driver has no tokenizer."""

# Shakespeare, sonnet 18: stands in for the text that llmperf brings.
_SONNET: Final = """\
Shall I compare thee to a summer's day?
Thou art more lovely and more temperate:
Rough winds do shake the darling buds of May,
And summer's lease hath all too short a date;
Sometime too hot the eye of heaven shines,
And often is his gold complexion dimm'd;
And every fair from fair sometime declines,
By chance or nature's changing course untrimm'd;
But thy eternal summer shall not fade,
Nor lose possession of that fair thou ow'st;
Nor shall death brag thou wander'st in his shade,
When in eternal lines to time thou grow'st:
So long as men can breathe or eyes can see,
So long lives this, and this gives life to thee.
"""


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
    """The prompts of a file in turn, or such as llmperf makes; equal options, equal requests."""
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
    lines = text_lines(options.text.read_text(encoding="utf-8") if options.text else None)

    def positive(mean: int, deviation: int) -> int:
        return max(1, round(chance.gauss(mean, deviation)))

    while True:
        length = positive(options.mean_output_tokens, options.stddev_output_tokens)
        input_tokens = positive(options.mean_input_tokens, options.stddev_input_tokens)
        # It begins like no other, or a server that caches prefixes would skip most of the prefill.
        mark = f"{chance.getrandbits(32):08x}: "
        filled = filled_prompt(chance, lines, input_tokens * CHARACTERS_PER_TOKEN, length)
        text = (mark + filled)[: len(filled)]
        # The empty system message is llmperf's.
        messages = [{"role": "system", "content": ""}, {"role": "user", "content": text}]
        yield Request(_body(options, messages, length))


def _body(
    options: argparse.Namespace, messages: Sequence[Mapping[str, Any]], length: int, **more: Any
) -> bytes:
    prompt = prompt_fields(options.endpoint_type, messages)
    body = {"model": options.model, **prompt, "stream": True, "max_tokens": length}
    return json.dumps(body | more | options.additional_sampling_params).encode()


def text_lines(text: str | None) -> list[str]:
    """The lines that fill the prompts; None stands for the driver's own."""
    return (_SONNET if text is None else text).splitlines(keepends=True)


def filled_prompt(chance: random.Random, lines: list[str], characters: int, length: int) -> str:
    """``characters`` of instruction and shuffled ``lines``, asking for ``length`` tokens."""
    text = f"Go on with lines like these until there are {length} tokens:\n\n"
    while len(text) < characters:
        text += "".join(chance.sample(lines, len(lines)))
    return text[:characters]


def estimated_tokens(text: str) -> int:
    """An estimate of the number of tokens."""
    return -(-len(text) // CHARACTERS_PER_TOKEN)


class Reply:
    """One streamed reply, measured as llmperf does and joined as a client would.

    The time begins when this is created.
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
        """Notes the first error: the HTTP status or the code of an error event, otherwise -1."""
        if self._error[0] is None:
            self._error = (code, text)

    def take(self, data: bytes) -> None:
        """Takes what was read of the event stream. Raises LimitError."""
        for event in self._events.feed(data):
            self._take(event)

    def end(self) -> None:
        """Ends the stream, of which all was read."""
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
        """The fields of ``spectap.answer.Answer``; None where the reply did not end whole."""
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
