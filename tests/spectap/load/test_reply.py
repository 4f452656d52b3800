"""How streamed replies are put together."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from pydantic import TypeAdapter

from spectap.answer import Answer, ToolCall
from spectap.load.reply import Reply

Deltas = list[Mapping[str, Any]]


def taken(deltas: Deltas, finish: str | None = "stop", done: bool = True) -> Reply:
    reply = Reply()
    for place, delta in enumerate(deltas):
        reason = finish if place == len(deltas) - 1 else None
        event = {"choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}
        reply.take(b"data: " + json.dumps(event).encode() + b"\n")
        reply.take(b"\n")
    if done:
        reply.take(b"data: [DONE]\n")
    return reply


def answer(reply: Reply) -> Answer:
    return TypeAdapter(Answer).validate_python(reply.answer("p"))


def call(index: int, **function: str | None) -> dict[str, Any]:
    return {"tool_calls": [{"index": index, "function": function}]}


def test_text_is_joined() -> None:
    deltas: Deltas = [{"role": "assistant", "content": ""}, {"content": "a "}, {"content": "b"}]
    assert answer(taken(deltas)) == Answer("p", "a b", (), "stop")


@pytest.mark.parametrize("field", ["reasoning", "reasoning_content"])
def test_thoughts_stand_before_the_text(field: str) -> None:
    deltas: Deltas = [{field: "hm"}, {field: ", so", "content": None}, {"content": "yes"}]
    assert answer(taken(deltas, "length")).content == "<think>hm, so</think>yes"


def test_thoughts_that_are_sent_under_both_names_count_once() -> None:
    both = {"reasoning": "hm", "reasoning_content": "hm"}
    assert answer(taken([both])).content == "<think>hm</think>"


def test_tool_calls_are_joined_by_their_index() -> None:
    together = {"tool_calls": [*call(0, arguments="1}")["tool_calls"], *call(1)["tool_calls"]]}
    deltas: Deltas = [
        call(1, name="other", arguments=""),
        call(0, name="one", arguments='{"a": '),
        together,
        call(1, name=None, arguments="{}"),
    ]
    found = answer(taken(deltas, "tool_calls"))
    assert found.tool_calls == (ToolCall("one", '{"a": 1}'), ToolCall("other", "{}"))
    assert (found.content, found.finish) == ("", "tool_calls")


@pytest.mark.parametrize("index", [None, "0", 1.5])
def test_an_index_that_is_no_number_is_the_place(index: Any) -> None:
    parts = [{"index": index, "function": {"name": "a"}}, {"index": 1, "function": {"name": "b"}}]
    found = answer(taken([{"tool_calls": parts}], "tool_calls"))
    assert found.tool_calls == (ToolCall("a", ""), ToolCall("b", ""))


@pytest.mark.parametrize("reason", [3, ["stop"], {}, True])
def test_a_reason_to_finish_that_is_no_text_is_none(reason: Any) -> None:
    assert answer(taken([{"content": "a"}], finish=reason)).finish is None


def test_a_tool_call_is_output_too() -> None:
    fields = taken([call(0, name="weather", arguments="{}")]).fields(5)
    assert fields["number_output_tokens"] == 3
    assert 0 < fields["ttft_s"] <= fields["end_to_end_latency_s"]


def test_an_answer_without_a_reason_to_finish_is_whole_if_it_ended() -> None:
    assert answer(taken([{"content": "a"}], finish=None)).finish is None


def test_what_did_not_come_whole_is_no_answer() -> None:
    assert taken([{"content": "a"}], finish=None, done=False).answer("p") is None
    failed = taken([{"content": "a"}])
    failed.take(b'data: {"error": {"code": 500, "message": "out of memory"}}\n')
    assert failed.answer("p") is None
