"""What the built-in driver sends."""

from __future__ import annotations

import itertools
import json
from argparse import Namespace
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from spectap.load import llmperf
from spectap.load.requests import Request, requests_of
from spectap.names import CLASS_HEADER, PROMPT_HEADER
from tests.spectap.load.options import TOOL, options, prompt, written


def counted(given: Namespace) -> list[Request]:
    """Those that count, of the requests without end."""
    return list(itertools.islice(requests_of(given), given.max_num_completed_requests))


def bodies(given: Namespace) -> list[dict[str, Any]]:
    return [json.loads(request.body) for request in counted(given)]


def test_prompts_are_filled_with_the_case_s_line(tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    text.write_text(llmperf.repeated("counting "), encoding="utf-8")
    sent = bodies(options("--text", str(text), requests=5))
    assert len(sent) == 5
    assert sent == bodies(options("--text", str(text), requests=5))
    for body in sent:
        assert body["max_tokens"] == 20
        assert body["temperature"] == 0.0
        assert body["stream"]
        assert not {"stream_options", "tools"} & set(body)
        content = body["messages"][-1]["content"]
        assert len(content) == 64 * 4
        assert content.count("counting \n") > 10


def test_without_a_line_prompts_are_sonnets_and_differ() -> None:
    sent = bodies(options(requests=4, stddev_output_tokens=9))
    prompts = {body["messages"][-1]["content"] for body in sent}
    assert len(prompts) == 4
    assert any("summer" in text for text in prompts)
    assert len({body["max_tokens"] for body in sent}) > 1
    assert all(request.headers == {} for request in counted(options()))


def test_prompts_of_a_set_are_sent_as_they_are_in_turn(tmp_path: Path) -> None:
    # A separator of lines for Python, which JSON need not escape.
    prompts = prompt("a", "Why?\n\u2028"), prompt("b", tools=[TOOL], max_tokens=7)
    sampling = {"chat_template_kwargs": {"enable_thinking": False}}
    given = options(*written(tmp_path, *prompts), requests=3, sampling=sampling)
    one, other, again = bodies(given)
    assert one == again
    assert one["messages"] == [dict(message) for message in prompts[0].messages]
    assert "tools" not in one
    assert other["tools"] == [TOOL]
    assert [body["max_tokens"] for body in (one, other)] == [20, 7]
    assert all(body["stream"] for body in (one, other))
    assert all(body["chat_template_kwargs"] == {"enable_thinking": False} for body in (one, other))


def test_prompts_of_a_set_are_never_longer_or_shorter_by_chance(tmp_path: Path) -> None:
    given = options(*written(tmp_path, prompt()), requests=9, stddev_output_tokens=9)
    assert {body["max_tokens"] for body in bodies(given)} == {20}


def test_headers_name_the_prompt_and_its_class(tmp_path: Path) -> None:
    prompts = prompt("écrire/1 %", prompt_class="räumlich"), prompt("b")
    named, unclassed = counted(options(*written(tmp_path, *prompts), requests=2))
    assert all(value.isascii() and value.isprintable() for value in named.headers.values())
    assert {header: unquote(value) for header, value in named.headers.items()} == {
        PROMPT_HEADER: "écrire/1 %",
        CLASS_HEADER: "räumlich",
    }
    assert unclassed.headers == {PROMPT_HEADER: "b"}
