"""Counting prompts at a server. What the server says is what vLLM's ``/tokenize`` says."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from aiohttp import web

from spectap.endpoint import context
from spectap.endpoint.context import Counted, Refused
from spectap.prompt import Prompt
from tests.spectap.tapped import Handler, server


def prompt(text: str, **fields: Any) -> Prompt:
    return Prompt(name=text, messages=({"role": "user", "content": text},), **fields)


def vllm(bodies: list[dict[str, Any]], most: int = 100) -> Handler:
    """Counts a token a word, three for the template, and notes what it is asked."""

    async def answer(request: web.Request) -> web.StreamResponse:
        if request.path != "/tokenize":
            return web.Response(status=404)
        body = await request.json()
        bodies.append(body)
        text = " ".join(message["content"] for message in body["messages"])
        if text.isdigit():
            return web.Response(status=int(text))
        if "refused" in text:
            error = {"message": "roles must alternate", "type": "BadRequestError", "code": 400}
            return web.json_response({"error": error}, status=400)
        tokens = len(text.split()) + 3 * body["add_generation_prompt"]
        return web.json_response({"count": tokens, "max_model_len": most, "token_strs": None})

    return answer


def count(
    handler: Handler, prompts: Sequence[Prompt], sampling: dict[str, Any] | None = None
) -> list[Counted | Refused | None]:
    async def scenario() -> list[Counted | Refused | None]:
        async with server(handler) as url:
            return await context.count(url, "target", prompts, sampling or {})

    return asyncio.run(scenario())


def test_prompts_are_counted_as_they_will_be_sent() -> None:
    bodies: list[dict[str, Any]] = []
    tools = ({"type": "function", "function": {"name": "add", "parameters": {}}},)
    kwargs = {"enable_thinking": False}
    prompts = [prompt("one"), prompt("one two three", tools=tools)]
    sampling = {"temperature": 0, "chat_template_kwargs": kwargs}
    assert count(vllm(bodies), prompts, sampling) == [Counted(4, 100), Counted(6, 100)]
    assert bodies == [
        {
            "model": "target",
            "messages": [{"role": "user", "content": text}],
            "add_generation_prompt": True,
            "chat_template_kwargs": kwargs,
        }
        | more
        for text, more in (("one", {}), ("one two three", {"tools": [*tools]}))
    ]


REFUSED = Refused("roles must alternate")


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (["refused", "one", "one two"], [REFUSED, Counted(4, 100), Counted(5, 100)]),
        (["one", "one two", "refused"], [Counted(4, 100), Counted(5, 100), REFUSED]),
        # Such a server does not understand the question.
        (["refused", "refused"], [None, None]),
        # A failure at one prompt says nothing of the others.
        (["500", "one", "404", "one"], [None, Counted(4, 100), None, Counted(4, 100)]),
        (["word " * n for n in range(1, 30)], [Counted(n + 3, 100) for n in range(1, 30)]),
        ([], []),
    ],
)
def test_each_prompt_is_counted_or_refused_in_order(texts: list[str], expected: list[Any]) -> None:
    assert count(vllm([]), [prompt(text) for text in texts]) == expected


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (
            '{"object": "error", "message": "roles\\n must\\u001b alternate"}',
            "roles must\ufffd alternate",
        ),
        ("<h1>No</h1>", "<h1>No</h1>"),
        ("", "no reason given"),
        ("no " * 100, "no " * 40),
    ],
)
def test_the_reason_is_one_short_line_whatever_its_shape(text: str, reason: str) -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        if "refused" in await request.text():
            return web.Response(status=400, text=text)
        return web.json_response({"count": 4, "max_model_len": 100})

    counts = count(answer, [prompt("refused"), prompt("one")])
    assert counts == [Refused(reason), Counted(4, 100)]


def test_a_prompt_that_is_counted_too_late_is_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(context, "_ONE_TRY_SECONDS", 0.1)

    async def answer(request: web.Request) -> web.StreamResponse:
        if "late" in await request.text():
            await asyncio.sleep(0.3)
        return web.json_response({"count": 4, "max_model_len": 100})

    assert count(answer, [prompt("late"), prompt("one")]) == [None, Counted(4, 100)]


@pytest.mark.parametrize(
    ("status", "text"),
    [(404, ""), (500, ""), (200, "<html>"), (200, "[1]"), (200, '{"count": 4}')],
)
def test_a_server_that_does_not_count_is_asked_for_two_prompts(status: int, text: str) -> None:
    paths: list[str] = []

    async def answer(request: web.Request) -> web.StreamResponse:
        paths.append(request.path)
        return web.Response(status=status, text=text)

    assert count(answer, [prompt("a"), prompt("b"), prompt("c")]) == [None] * 3
    assert paths == ["/tokenize"] * 2


def test_a_server_that_is_down_counts_nothing() -> None:
    assert asyncio.run(context.count("http://127.0.0.1:9/v1", "m", [prompt("a")], {})) == [None]
