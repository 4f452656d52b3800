"""What the built-in driver sends, and how streamed replies are put together."""

from __future__ import annotations

import itertools
import json
import time
from argparse import Namespace
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from pydantic import TypeAdapter

from spectap.answer import Answer, ToolCall
from spectap.load import llmperf
from spectap.load.requests import Reply, Request, requests_of
from spectap.names import CLASS_HEADER, PROMPT_HEADER
from tests.spectap.load.options import TOOL, options, prompt, written

Deltas = list[Mapping[str, Any]]


def counted(arguments: Namespace) -> list[Request]:
    """Those that count, of the requests without end."""
    return list(itertools.islice(requests_of(arguments), arguments.max_num_completed_requests))


def bodies(arguments: Namespace) -> list[dict[str, Any]]:
    return [json.loads(request.body) for request in counted(arguments)]


def test_prompts_are_filled_with_the_line_of_the_case(tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    text.write_text(llmperf.repeated("counting "), encoding="utf-8")
    sent = bodies(options("--text", str(text), requests=5))
    assert sent == bodies(options("--text", str(text), requests=5))
    for body in sent:
        assert (body["max_tokens"], body["temperature"], body["stream"]) == (20, 0.0, True)
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
    prompts = (
        prompt("écrire/1 %", "Why?\n\u2028", prompt_class="räumlich"),
        prompt("b", tools=[TOOL], max_tokens=7),
    )
    sampling = {"chat_template_kwargs": {"enable_thinking": False}}
    arguments = options(
        *written(tmp_path, *prompts), requests=3, sampling=sampling, stddev_output_tokens=9
    )
    first, second, third = bodies(arguments)
    assert first == third
    assert first["messages"] == [dict(message) for message in prompts[0].messages]
    assert "tools" not in first
    assert second["tools"] == [TOOL]
    # The load's deviation does not make them longer or shorter.
    assert [body["max_tokens"] for body in (first, second)] == [20, 7]
    assert all(body.items() >= (sampling | {"stream": True}).items() for body in (first, second))
    named, unclassed, _ = counted(arguments)
    assert all(value.isascii() and value.isprintable() for value in named.headers.values())
    assert {header: unquote(value) for header, value in named.headers.items()} == {
        PROMPT_HEADER: "écrire/1 %",
        CLASS_HEADER: "räumlich",
    }
    assert unclassed.headers == {PROMPT_HEADER: "b"}


def reply_of(deltas: Deltas, finish: Any = "stop", done: bool = True) -> Reply:
    reply = Reply()
    for number, delta in enumerate(deltas):
        reason = finish if number == len(deltas) - 1 else None
        event = {"choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}
        reply.take(b"data: " + json.dumps(event).encode() + b"\n")
        reply.take(b"\n")
    if done:
        reply.take(b"data: [DONE]\n")
    return reply


def answer(reply: Reply) -> Answer:
    return TypeAdapter(Answer).validate_python(reply.answer("p"))


def call(index: Any, **function: str | None) -> dict[str, Any]:
    return {"index": index, "function": function}


@pytest.mark.parametrize(
    ("deltas", "content", "calls"),
    [
        ([{"role": "assistant", "content": ""}, {"content": "a "}, {"content": "b"}], "a b", []),
        (
            [{"reasoning": "hm"}, {"reasoning": ", so", "content": None}, {"content": "yes"}],
            "<think>hm, so</think>yes",
            [],
        ),
        ([{"reasoning": "hm", "reasoning_content": "hm"}], "<think>hm</think>", []),
        ([{"reasoning_content": "hm"}], "<think>hm</think>", []),
        (
            [
                {"tool_calls": [call(1, name="other", arguments="")]},
                {"tool_calls": [call(0, name="one", arguments='{"a": ')]},
                {"tool_calls": [call(0, arguments="1}"), call(1)]},
                {"tool_calls": [call(1, name=None, arguments="{}")]},
            ],
            "",
            [ToolCall("one", '{"a": 1}'), ToolCall("other", "{}")],
        ),
        # An index that is no number is the position.
        *(
            (
                [{"tool_calls": [call(index, name="a"), call(1, name="b")]}],
                "",
                [ToolCall("a", ""), ToolCall("b", "")],
            )
            for index in (None, "0", 1.5)
        ),
    ],
)
def test_the_parts_of_a_reply_are_joined(
    deltas: Deltas, content: str, calls: list[ToolCall]
) -> None:
    assert answer(reply_of(deltas)) == Answer("p", content, tuple(calls), "stop")


def test_a_reply_is_measured_as_llmperf_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every event counts as a token, and the role's counts as an event."""
    now = iter([0.0, 2.0, 3.0, 7.0])  # sent, first text, call, end
    monkeypatch.setattr(time, "monotonic", lambda: next(now))
    deltas: Deltas = [
        {"role": "assistant"},
        {"content": "a "},
        {"tool_calls": [call(0, name="weather", arguments="{}")]},
        {},
    ]
    assert reply_of(deltas).fields() == {
        "error_code": None,
        "error_msg": "",
        "inter_token_latency_s": 3 / 4,
        "ttft_s": 2,
        "end_to_end_latency_s": 7,
        "number_output_tokens": 3,
    }


@pytest.mark.parametrize("reason", [None, 3, ["stop"]])
def test_an_answer_without_a_reason_to_finish_is_whole_if_it_ended(reason: Any) -> None:
    assert answer(reply_of([{"content": "a"}], finish=reason)).finish is None
    assert reply_of([{"content": "a"}], finish=reason, done=False).answer("p") is None


def test_an_answer_that_failed_is_none() -> None:
    failed = reply_of([{"content": "a"}])
    failed.take(b'data: {"error": {"code": 500, "message": "out of memory"}}\n')
    assert failed.answer("p") is None
    assert (failed.fields()["error_code"], failed.fields()["error_msg"]) == (500, "out of memory")
