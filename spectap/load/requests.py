"""What the built-in driver sends: the prompts of a set as they are, or such as llmperf makes."""

from __future__ import annotations

import argparse
import itertools
import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from spectap.load import texts
from spectap.names import CLASS_HEADER, PROMPT_HEADER


@dataclass(frozen=True)
class Request:
    """One chat request."""

    body: bytes
    """JSON, written beforehand: while requests have their times, nothing else should take any."""
    input_tokens: int
    """Estimated."""
    prompt: str = ""
    """Its name in the set; empty where prompts have no names."""
    prompt_class: str = ""

    @property
    def headers(self) -> dict[str, str]:
        """What the tap should know of it."""
        said = {PROMPT_HEADER: self.prompt, CLASS_HEADER: self.prompt_class}
        return {header: quote(value) for header, value in said.items() if value}


def requests_of(options: argparse.Namespace) -> Iterator[Request]:
    """The requests that will be sent, without end; equal options, equal requests."""
    return _named(options) if options.prompts else _filled(options)


def _named(options: argparse.Namespace) -> Iterator[Request]:
    """The prompts of the file in turn, without end."""
    # Not read by ``spectap.prompt``: the driver starts for each turn, and pydantic takes a while.
    with options.prompts.open(encoding="utf-8") as file:
        prompts = [json.loads(line) for line in file]
    for prompt in itertools.cycle(prompts):
        length = prompt["max_tokens"] or options.mean_output_tokens
        tools = {"tools": prompt["tools"]} if prompt["tools"] else {}
        body = _body(options, prompt["messages"], length, **tools)
        said = json.dumps(prompt["messages"], ensure_ascii=False)
        yield Request(body, texts.tokens(said), prompt["name"], prompt["prompt_class"])


def _filled(options: argparse.Namespace) -> Iterator[Request]:
    """Prompts as llmperf's, without end."""
    chance = random.Random(11)
    own = texts.lines(options.text.read_text(encoding="utf-8") if options.text else None)
    while True:
        length = _positive(chance, options.mean_output_tokens, options.stddev_output_tokens)
        wanted = _positive(chance, options.mean_input_tokens, options.stddev_input_tokens)
        text = texts.prompt(chance, own, wanted * texts.CHARACTERS_PER_TOKEN, length)
        # The empty system message is llmperf's.
        messages = [{"role": "system", "content": ""}, {"role": "user", "content": text}]
        yield Request(_body(options, messages, length), texts.tokens(text))


def _body(options: argparse.Namespace, messages: Any, length: int, **more: Any) -> bytes:
    body = {"model": options.model, "messages": messages, "stream": True, "max_tokens": length}
    return json.dumps(body | more | options.additional_sampling_params).encode()


def _positive(chance: random.Random, mean: int, deviation: int) -> int:
    return max(1, round(chance.gauss(mean, deviation)))
