"""The golden endpoint: what it answers, in vLLM's bytes, and what its counters say of that."""

import ast
import asyncio
import json
from typing import Any

import aiohttp
import jsonschema
import pytest
from prometheus_client.parser import text_string_to_metric_families

from spectap.golden.answers import reply
from spectap.golden.counted import Sent, page
from spectap.golden.server import GoldenEndpoint
from spectap.names import Engine
from tests.tapped import chat, golden

KEY = "Bearer sesame"
STREAM: dict[str, Any] = {
    "stream": True,
    "stream_options": {"include_usage": True, "continuous_usage_stats": True},
}


pytestmark = pytest.mark.anyio


async def post(server: GoldenEndpoint, **body: Any) -> tuple[int, bytes]:
    """Status and body of a chat."""
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{server.url}/chat/completions", json=chat(stream=False) | body) as response,
    ):
        return response.status, await response.read()


async def test_with_a_key_it_answers_those_who_send_it() -> None:
    """As vLLM does: whatever is not below /v1 stays open."""
    async with golden(1, api_key="sesame") as server:
        for key, of_v1 in (("", [401, 401]), ("Bearer other", [401, 401]), (KEY, [200, 404])):
            async with aiohttp.ClientSession(headers={"Authorization": key}) as session:
                root = server.url.removesuffix("/v1")
                paths = ("/v1/models", "/v1/nothing", "/health", "/metrics")
                statuses = [(await session.get(f"{root}{path}")).status for path in paths]
                assert statuses == [*of_v1, 200, 200]


def events(stream: bytes) -> list[Any]:
    parts = stream.split(b"\n\n")
    assert parts[-2:] == [b"data: [DONE]", b""]
    return [json.loads(event.removeprefix(b"data: ")) for event in parts[:-2]]


async def test_a_chat_stream_with_usage_is_vllm_s() -> None:
    async with golden(1, 4, 2) as server:
        status, stream = await post(server, **STREAM)
    assert status == 200
    role, *chunks, usage_only = events(stream)
    assert list(role) == ["id", "object", "created", "model", "choices", "usage"]
    assert role["object"] == "chat.completion.chunk"
    assert role["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert role["usage"]["completion_tokens"] == 0
    assert [chunk["usage"]["completion_tokens"] for chunk in chunks] == [1, 5, 7]
    reasons = [chunk["choices"][0]["finish_reason"] for chunk in chunks]
    assert reasons == [None, None, "length"]
    assert all(chunk["choices"][0]["delta"]["content"] for chunk in chunks)
    assert usage_only["choices"] == []
    assert usage_only["usage"] == {"prompt_tokens": 2, "total_tokens": 9, "completion_tokens": 7}


async def test_a_streamed_call_is_vllm_s() -> None:
    async with golden(1, 4, 9) as server:
        _, stream = await post(server, **STREAM, tools=[TOOL])
    role, first, *argument_events, usage_only = events(stream)
    assert role["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    named, piece = first["choices"][0]["delta"]["tool_calls"]
    assert list(named) == ["id", "type", "index", "function"]
    assert named["function"] == {"name": "weather"}
    assert piece.keys() == {"index", "function"}
    pieces = [event["choices"][0]["delta"]["tool_calls"] for event in argument_events]
    arguments = "".join(call["function"]["arguments"] for (call,) in [[piece], *pieces])
    assert json.loads(arguments)["city"]
    assert [event["choices"][0]["finish_reason"] for event in [first, *argument_events]] == [
        None,
        "tool_calls",
    ]
    # The first step's token alone is no name yet: vLLM's parser holds it back.
    assert first["usage"]["completion_tokens"] == 5
    assert usage_only["usage"]["completion_tokens"] == 14


async def test_an_answer_that_is_not_streamed() -> None:
    async with golden(1, 39) as server:
        status, body = await post(server, tools=[TOOL])
    answer = json.loads(body)
    assert (status, answer["usage"]["completion_tokens"]) == (200, 40)
    (sent,) = server.sent
    assert (sent.tokens, sent.whole) == (40, True)
    (choice,) = answer["choices"]
    assert (choice["finish_reason"], choice["message"]["content"]) == ("tool_calls", None)
    (call,) = choice["message"]["tool_calls"]
    assert (call["type"], call["function"]["name"]) == ("function", "weather")
    assert json.loads(call["function"]["arguments"])


async def test_it_counts_the_tokens_of_a_prompt_and_refuses_what_does_not_fit() -> None:
    server = golden(1, gap=0, max_model_len=100)
    async with server, aiohttp.ClientSession() as session:
        tokenize = f"{server.url.removesuffix('/v1')}/tokenize"
        body = chat(messages=[{"role": "user", "content": "x" * 240}], stream=False)
        async with session.post(tokenize, json=body) as response:
            counted = await response.json()
        assert (counted["count"], counted["max_model_len"]) == (60, 100)
        async with session.post(tokenize, json=body | {"model": "x"}) as response:
            assert response.status == 404
        assert (await post(server, **body, max_tokens=40))[0] == 200
        status, answer = await post(server, **body, max_tokens=41)
        assert status == 400
        message = json.loads(answer)["error"]["message"]
        assert "maximum context length is 100 tokens. However, you requested 101" in message


async def test_requests_beyond_the_batch_wait_their_turn() -> None:
    async with golden(1, gap=0.2, batch=2) as server, aiohttp.ClientSession() as session:
        requests = [asyncio.create_task(post(server, stream=True)) for _ in range(3)]
        await asyncio.sleep(0.1)
        async with session.get(f"{server.url.removesuffix('/v1')}/metrics") as response:
            page = await response.text()
        assert 'num_requests_running{engine="0",model_name="Qwen/Qwen3-32B"} 2.0' in page
        assert 'num_requests_waiting{engine="0",model_name="Qwen/Qwen3-32B"} 1.0' in page
        await asyncio.gather(*requests)
        assert max(sent.ttft for sent in server.sent) > 0.38


SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "city": {"type": "string"},
        "unit": {"enum": ["C", "F"]},
        "days": {"type": "integer"},
        "limits": {"type": "array", "items": {"type": "number"}},
        "place": {"type": "object", "properties": {"near": {"type": ["boolean", "null"]}}},
        "either": {"anyOf": [{"const": 7}, {"type": "string"}]},
    },
    "required": ["city", "unit", "days", "limits", "place", "either"],
}
TOOL = {"type": "function", "function": {"name": "weather", "parameters": SCHEMA}}


def request(text: str, **fields: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": text}]} | fields


def test_a_call_names_a_given_or_the_chosen_tool_and_keeps_its_schema() -> None:
    called = reply(request("How is it?", tools=[TOOL]), 200)
    assert (called.tool, called.finish) == ("weather", "tool_calls")
    jsonschema.validate(json.loads(called.text), SCHEMA)
    tools = [{"type": "function", "function": {"name": "other"}}, TOOL]
    choice = {"type": "function", "function": {"name": "weather"}}
    for text in "abcdef":
        chosen = reply(request(text, tools=tools, tool_choice=choice), 20)
        assert (chosen.tool, chosen.finish) == ("weather", "stop")
    assert reply(request("a", tools=[TOOL], tool_choice="none"), 20).tool is None


def test_json_code_or_words_as_asked_for() -> None:
    for body in (
        request("Answer in JSON."),
        request("Answer.", response_format={"type": "json_object"}),
    ):
        answer = reply(body, 30)
        assert json.loads(answer.text)["answer"]
        assert answer.finish == "stop"
    text = reply(request("Go on:\n\ndef dump_json(value):\n    '''Writes JSON.'''"), 60).text
    assert text.startswith("```python\n")
    (function,) = ast.parse(text.strip("`").removeprefix("python")).body
    assert isinstance(function, ast.FunctionDef)
    assert function.name == "dump_json"
    words = reply(request("Tell me."), 12)
    assert (words.finish, words.tool, len(words.tokens)) == ("length", None, 12)


# One that has ended, of 1 + 4 + 2 tokens and one beyond, and one of which 1 + 3 have been sent.
SENT = [
    Sent("a", 0, "say it", [(0.5, 1), (0.75, 4), (1.25, 2)], beyond=1, whole=True),
    Sent("b", 0, "say it twice", [(0.5, 1), (1.5, 3)]),
]


def samples(text: str) -> dict[str, float]:
    """Name and position -> value; the other labels are checked by the way."""
    values = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            assert sample.labels.pop("model_name") == "m"
            engine = sample.labels.pop("engine", None)
            assert (engine == "0") == ("inter_token" in text), "a label of V1 alone"
            position = sample.labels.pop("position", "")
            values[sample.name.removeprefix("vllm:") + position] = sample.value
    return values


BOTH = {
    **{"num_requests_running": 1, "num_requests_waiting": 0},
    **{"request_generation_tokens_count": 1, "request_generation_tokens_sum": 7},
}


def test_either_engine_counts_in_its_way() -> None:
    assert samples(page(Engine.V0, "m", SENT, running=1)) == BOTH | {
        "generation_tokens_total": 5,  # those that it scheduled: one a step
        "time_per_output_token_seconds_count": 3,
    }
    assert samples(page(Engine.V1, "m", SENT, running=1, drafts=4)) == BOTH | {
        "generation_tokens_total": 11,
        "inter_token_latency_seconds_count": 3,
        "spec_decode_num_drafts_total": 3,
        "spec_decode_num_draft_tokens_total": 12,
        # What is accepted counts, though the answer ends before it.
        "spec_decode_num_accepted_tokens_total": 7,
        "spec_decode_num_accepted_tokens_per_pos_total0": 3,
        "spec_decode_num_accepted_tokens_per_pos_total1": 3,
        "spec_decode_num_accepted_tokens_per_pos_total2": 1,
        "spec_decode_num_accepted_tokens_per_pos_total3": 0,
    }
    # V0 shows a histogram only once it has a value.
    empty = [samples(page(engine, "m", [])) for engine in (Engine.V0, Engine.V1)]
    assert ["request_generation_tokens_sum" in each for each in empty] == [False, True]
