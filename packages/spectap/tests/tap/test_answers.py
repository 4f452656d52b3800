"""What servers call an answer: which are failures, in whose words, and when they ended."""

import json
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from spectap import metrics
from spectap.load.requests import Reply
from spectap.records.record import Record
from spectap.tap.token_meter import Meter
from tests.tapped import Handler, bench, chat, parts, server

DONE = b"data: [DONE]\n\n"


def event(body: Any, newline: str = "\n", kind: str = "") -> bytes:
    data = body if isinstance(body, str) else json.dumps(body)
    lines = [f"event: {kind}"] if kind else []
    return newline.join([*lines, f"data: {data}", "", ""]).encode()


def chunk(content: Any, finish: Any = None, **fields: Any) -> dict[str, Any]:
    choice = {"index": 0, "delta": {"content": content}, "finish_reason": finish}
    return {"choices": [choice | fields]}


TOKEN = event(chunk("a"))


def problem(stream: bytes, size: int = 7) -> str | None:
    """The failure that the tap sees, read in parts; the driver must see one in the same streams."""
    meter, reply = Meter(strip=True, usage_only=False, null_usage=False), Reply()
    for start in range(0, len(stream), size):
        meter.feed(stream[start : start + size], 0.5)
        reply.take(stream[start : start + size])
    meter.close(1.0)
    reply.end()
    assert (reply.fields()["error_code"] is None) is (meter.problem() is None)
    return meter.problem()


@pytest.mark.parametrize(
    ("stream", "words"),
    [
        (TOKEN + event(chunk("", "abort")) + DONE, "cut short: the answer ended for the reason"),
        (TOKEN + event(chunk("", "timeout")) + DONE, "'timeout'"),  # TensorRT-LLM
        (TOKEN + event(chunk("", "insufficient_system_resource")) + DONE, "insufficient"),
        (TOKEN + event(chunk("", "content_filter")) + DONE, "content_filter"),
        (TOKEN + event(chunk("", "abort")) + event(chunk("", "stop")) + DONE, "abort"),
        (TOKEN + event(chunk("", "error", error={"message": "gone"})) + DONE, "gone"),
        (TOKEN + event({"object": "error", "message": "no memory", "code": 5}) + DONE, "no memory"),
        (TOKEN + event({"detail": "engine died"}) + DONE, "engine died"),
        (TOKEN + event({"error_code": 18, "error_msg": "limit"}) + DONE, "limit"),  # Baidu's
        (TOKEN + event({"error": {"message": "x"}, "choices": []}) + DONE, "x"),
        (TOKEN + event({"message": "at once"}, kind="error") + DONE, "at once"),
        (TOKEN + event("overloaded", kind="error") + DONE, "overloaded"),
        (DONE, "empty: the answer has no token"),
        (event(chunk("", "stop")) + DONE, "empty"),
        (event({"status": "warming up"}) + DONE, "warming up"),
        (event({"choices": [], "usage": {"completion_tokens": 0}}) + DONE, "empty"),
        (TOKEN, "truncated: the stream ended without [DONE]"),
        (TOKEN + event("{not json") + DONE, "malformed event: b'{not json'"),
        (TOKEN + event("[" * 5000) + DONE, "malformed event"),
        (TOKEN + event(json.dumps({"detail": 1}).replace("1", "[" * 900 + "]" * 900)), "[[["),
    ],
)
def test_what_is_no_answer_is_a_failure_in_the_server_s_words(stream: bytes, words: str) -> None:
    assert words in (problem(stream) or "")


@pytest.mark.parametrize(
    "stream",
    [
        TOKEN + DONE,
        TOKEN + event(chunk("", "stop")),
        *(
            TOKEN + event(chunk("", reason)) + DONE
            for reason in ("STOP", "eos_token", "tool_calls")
        ),
        # Ollama and SGLang sent an empty reason, KoboldCpp the word, others a number.
        *(event(chunk("a", reason)) + DONE for reason in ("", "null", 3, ["stop"])),
        event(chunk(None)) + event(chunk([{"type": "text", "text": "a"}], "length")) + DONE,
        TOKEN + event(chunk("", "stop") | {"error": None, "detail": None}) + DONE,
        TOKEN + event({"choices": [None, 7]}) + event({"choices": {"a": 1}}) + DONE,
        TOKEN + event({"type": "ping"}) + event("", kind="ping") + b": ping\n" + DONE,
        TOKEN + event(chunk("\ud83d")) + event(chunk("\ude00")) + DONE,
        TOKEN + event(chunk("a", logprobs={"top": [float("-inf"), float("nan")]})) + DONE,
        b"\xef\xbb\xbf" + TOKEN + DONE,
        TOKEN.replace(b"\n", b"\r") + DONE.replace(b"\n", b"\r"),
        TOKEN.replace(b"\n", b"\r\n") + b"id: 7\r\ndata:[DONE]",
        event(chunk("a", "stop")).replace(b", ", b",\ndata: ", 1) + DONE,
    ],
)
def test_what_clients_take_is_an_answer(stream: bytes) -> None:
    for size in (1, 7, len(stream)):
        assert problem(stream, size) is None


@pytest.mark.parametrize(
    ("body", "error"),
    [
        ({"error": {"message": "Too many requests", "code": 429}}, "HTTP 429: Too many requests"),
        ({"choices": [{"message": {"content": "x"}, "finish_reason": "stop"}]}, None),
        ({"choices": [{"text": "x", "finish_reason": None}]}, None),
        ({"choices": [], "usage": {"completion_tokens": 3}}, None),
        ({"object": "error", "message": "no memory"}, "HTTP 200: no memory"),
        ({"detail": "Not Found"}, "HTTP 200: Not Found"),
        ({"error": "busy", "choices": []}, "HTTP 200: busy"),
        ({"choices": [{"message": {"content": ""}, "finish_reason": "stop"}]}, "empty: "),
        ({"choices": [{"message": {"content": "x"}, "finish_reason": "abort"}]}, "cut short: "),
        ({}, "empty: "),
    ],
)
@pytest.mark.anyio
async def test_an_answer_that_is_not_streamed(
    tmp_path: Path, body: dict[str, Any], error: str | None
) -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        return web.json_response(body, status=429 if "429" in str(error) else 200)

    record, _ = await recorded(tmp_path, answer, stream=False)
    assert (record.error or "").startswith(error or "")
    assert (record.error is None) is (error is None)


async def recorded(folder: Path, handler: Handler, **fields: Any) -> tuple[Record, bytes]:
    """The line of an answer, and what passed."""
    async with server(handler) as url, bench(url, folder, 0.4) as b:
        passed = b""
        async with b.client.post(f"{b.tap.url}/chat/completions", json=chat(**fields)) as response:
            try:
                async for data in response.content.iter_any():
                    passed += data
            except Exception:
                assert b.only().error
        return b.only(), passed


@pytest.mark.parametrize("alive", [b": ping\n\n", event(chunk("")), event({"type": "ping"})])
@pytest.mark.anyio
async def test_a_stall_is_a_stall_whatever_keeps_the_connection_alive(
    tmp_path: Path, alive: bytes
) -> None:
    record, _ = await recorded(tmp_path, parts(TOKEN, *(alive, 0.1) * 12, TOKEN, DONE))
    assert record.error == "stalled: nothing but keep-alives came for 0.4 s"
    assert record.end == pytest.approx(0.4, abs=0.25)


@pytest.mark.anyio
async def test_an_answer_ends_with_its_last_token(tmp_path: Path) -> None:
    last, usage = event(chunk("b", "length")), event({"choices": []})
    record, _ = await recorded(tmp_path, parts(0.2, TOKEN, 0.1, last, 0.3, usage, DONE))
    assert (record.error, record.finish) == (None, "length")
    assert record.end == record.chunks[-1][0] < 0.5


@pytest.mark.anyio
async def test_the_tokens_of_several_answers_are_no_steps_of_one(tmp_path: Path) -> None:
    usage = {"usage": {"prompt_tokens": 1, "completion_tokens": 1}}
    events = [event(chunk("a", index=index) | usage) for index in (0, 1)]
    record, _ = await recorded(tmp_path, parts(*events, DONE), n=2)
    assert (record.output_tokens, record.choices) == (2, 2)
    assert not record.shows_steps
    assert metrics.time_per_output_token(record) is None


@pytest.mark.anyio
async def test_the_encoding_of_an_answer_nobody_asked_to_compress_is_named(tmp_path: Path) -> None:
    record, passed = await recorded(tmp_path, parts(b"opaque", Content_Encoding="x-own"))
    assert record.error == "compressed: the answer came as x-own, not as asked for"
    assert passed == b"opaque"


@pytest.mark.anyio
async def test_a_client_that_wants_no_usage_loses_nothing_else(tmp_path: Path) -> None:
    head, usage = {"id": "c", "choices": []}, {"usage": {"completion_tokens": 1}}
    timings = {"timings": {"draft_n": 5}}
    events = [event(head | usage | timings), event(head | usage), DONE]
    _, passed = await recorded(tmp_path, parts(TOKEN, *events))
    first, last, done = passed.split(b"\n\n")[:3]
    assert (first + b"\n\n", done + b"\n\n") == (TOKEN, DONE)
    choice = {"index": 0, "delta": {}, "finish_reason": None}
    assert json.loads(last.removeprefix(b"data: ")) == {"id": "c", "choices": [choice]} | timings


@pytest.mark.parametrize(("model", "named"), [(chat()["model"], ""), ("tiny", "tiny"), (7, "7")])
@pytest.mark.anyio
async def test_another_model_than_the_one_asked_for_is_said(
    tmp_path: Path, model: Any, named: str
) -> None:
    record, _ = await recorded(tmp_path, parts(event(chunk("a", "stop") | {"model": model}), DONE))
    assert (record.error, record.model) == (None, named)


@pytest.mark.anyio
async def test_a_first_event_that_is_counted_with_the_next_is_the_first_token(
    tmp_path: Path,
) -> None:
    """A count may lag by a step; and DeepSeek names what was cached in its own way."""
    more = {"prompt_cache_hit_tokens": 16}
    late = [event(chunk("a") | {"usage": {"completion_tokens": n} | more}) for n in range(3)]
    end = event(chunk("", "stop") | {"usage": {"completion_tokens": 3} | more})
    record, _ = await recorded(tmp_path, parts(*late, end + DONE))
    assert (record.per_chunk, [tokens for _, tokens in record.chunks]) == (True, [0, 1, 1, 1])
    assert record.cached_tokens == 16
