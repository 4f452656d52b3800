"""The load's command line and requests, and how replies and results are read."""

import argparse
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

from spectap.inputs.load_points import Load, LoadPoint
from spectap.inputs.prompt import Prompt
from spectap.load import builtin, llmperf
from spectap.load.requests import Reply, Request, requests_of
from spectap.names import CLASS_HEADER, PROMPT_HEADER
from spectap.records.answer import Answer, ToolCall
from tests import samples

TOOL = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}


def options(*extra: str, **changes: Any) -> argparse.Namespace:
    """Those of ``samples.load`` with ``changes``, and ``extra`` ones."""
    shape = Load.model_validate(samples.load(**changes))
    (point,) = shape.points
    arguments = llmperf.arguments(shape, point, model="m", results=Path("/r"), driver="closed-loop")
    return builtin.parser().parse_args([*arguments, *extra])


def prompt(name: str = "line-1", text: str = "Why?", **fields: Any) -> Prompt:
    """A prompt with a system message."""
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": text}]
    return Prompt.model_validate({"name": name, "messages": messages} | fields)


def written(folder: Path, *prompts: Prompt) -> list[str]:
    """The option for ``prompts``, which are written into ``folder``."""
    path = folder / "prompts.jsonl"
    path.write_text("".join(p.model_dump_json() + "\n" for p in prompts), encoding="utf-8")
    return ["--prompts", str(path)]


Deltas = list[Mapping[str, Any]]


def counted(arguments: Namespace) -> list[Request]:
    """Those that count, of the requests without end."""
    return list(itertools.islice(requests_of(arguments), arguments.max_num_completed_requests))


def bodies(arguments: Namespace) -> list[dict[str, Any]]:
    return [json.loads(request.body) for request in counted(arguments)]


def test_prompts_are_filled_with_the_line_of_the_case(tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    text.write_text("counting ", encoding="utf-8")
    sent, again, later = (
        bodies(options("--text", str(text), "--seed", seed, requests=5, stddev_output_tokens=0))
        for seed in ("counting/1/1", "counting/1/1", "counting/1/2")
    )
    assert sent == again
    # No two have their first block of 16 tokens in common, which a server would cache.
    beginnings = {body["messages"][-1]["content"][:16] for body in (*sent, *later)}
    assert len(beginnings) == 10
    for body in sent:
        assert (body["max_tokens"], body["temperature"], body["stream"]) == (20, 0.0, True)
        assert not {"stream_options", "tools"} & set(body)
        content = body["messages"][-1]["content"]
        assert len(content) == 64 * 4
        assert content.count("counting \n") > 10


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
    # One that does not count begins like none before, which a server would have in its cache.
    third["messages"][0]["content"] = third["messages"][0]["content"].removeprefix("2: ")
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


def reply_of(deltas: Deltas) -> Reply:
    reply = Reply()
    for number, delta in enumerate(deltas):
        reason = "stop" if number == len(deltas) - 1 else None
        event = {"choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}
        reply.take(b"data: " + json.dumps(event).encode() + b"\n")
        reply.take(b"\n")
    reply.take(b"data: [DONE]\n")
    reply.end()
    return reply


def test_a_completion_has_the_text_alone_and_its_answer_is_joined(tmp_path: Path) -> None:
    arguments = options(
        *written(tmp_path, prompt(text="Why?")), "--endpoint-type", "completions", requests=1
    )
    (body,) = bodies(arguments)
    assert (body["prompt"], "messages" in body) == ("Why?", False)
    reply = Reply()
    for text, reason in (("Be", None), ("cause", "length")):
        event = {"choices": [{"index": 0, "text": text, "finish_reason": reason}]}
        reply.take(b"data: " + json.dumps(event).encode() + b"\n\n")
    reply.end()
    assert reply.answer("p") == {
        "prompt": "p",
        "content": "Because",
        "tool_calls": [],
        "finish": "length",
    }


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
        # An index that is not a number is the position.
        (
            [{"tool_calls": [call("0", name="a"), call(1, name="b")]}],
            "",
            [ToolCall("a", ""), ToolCall("b", "")],
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


def test_a_reply_that_fails_has_the_code_of_its_error() -> None:
    reply = Reply()
    reply.take(b'data: {"error": {"code": 500, "message": "out of memory"}}\n\ndata: [DONE]\n\n')
    reply.end()
    assert reply.fields()["error_code"] == 500
    assert reply.answer("p") is None


def test_each_case_has_its_own_text_and_the_installed_one_stays(tmp_path: Path) -> None:
    home = tmp_path / "llmperf"
    package = home / "src" / "llmperf"
    package.mkdir(parents=True)
    (package / "sonnet.txt").write_text("Shall I compare thee\n", encoding="utf-8")
    (package / "utils.py").touch()
    environment = {"LLMPERF_HOME": str(home), "LLMPERF_PYTHON": "python3.10"}
    assert llmperf.find(environment) is None
    (home / llmperf.SCRIPT).touch()
    installation = llmperf.find(environment)
    assert installation == llmperf.Installation("python3.10", home)
    first, second = tmp_path / "one", tmp_path / "two"
    for _ in range(2):
        command = installation.private_copy(first, "counting ")
    installation.private_copy(second, None)
    assert command == ["python3.10", str(first / llmperf.SCRIPT)]
    assert (first / llmperf.SCRIPT).is_file()
    assert (first / "llmperf" / "utils.py").is_file()
    assert (first / "llmperf" / "sonnet.txt").read_text(encoding="utf-8") == "counting \n" * 500
    for untouched in (home / "src", second):
        text = (untouched / "llmperf" / "sonnet.txt").read_text(encoding="utf-8")
        assert text == "Shall I compare thee\n"
    variables, others = (dict(installation.environment(first, concurrency=4)) for _ in range(2))
    # Two at once do not share a token.
    assert variables.pop("RAY_AUTH_TOKEN") != others["RAY_AUTH_TOKEN"]
    cpus = '{"CPU": 4}'
    assert variables.items() >= {("PYTHONPATH", str(first)), ("RAY_OVERRIDE_RESOURCES", cpus)}
    assert variables["RAY_AUTH_MODE"] == "token"


def test_the_command_line() -> None:
    load = Load.model_validate(samples.load())
    named: dict[str, Any] = {"model": "Qwen/Qwen3-32B", "results": Path("/r"), "driver": "llmperf"}
    arguments = llmperf.arguments(load, load.points[0], **named)
    assert " ".join(arguments) == (
        "--model Qwen/Qwen3-32B --mean-input-tokens 64 --stddev-input-tokens 0 "
        "--mean-output-tokens 20 --stddev-output-tokens 0 --num-concurrent-requests 2 "
        "--max-num-completed-requests 2 --timeout 20 "
        '--additional-sampling-params {"temperature": 0.0} '
        "--results-dir /r --llm-api openai --metadata driver=llmperf"
    )
    # A rate is the built-in driver's own.
    at_rate = llmperf.arguments(load, LoadPoint(rate=0.5, requests=2), **named)
    assert {*arguments} - {*at_rate} == {"--num-concurrent-requests"}
