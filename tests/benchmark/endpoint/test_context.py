"""Counting prompts at a server. What the server says is what vLLM's ``/tokenize`` says."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from aiohttp import web

from benchmark.endpoint import context
from benchmark.endpoint.context import Counted
from benchmark.prompt import Prompt
from tests.benchmark.tapped import Handler, server


def prompt(text: str, **fields: Any) -> Prompt:
    return Prompt(name=text, messages=({"role": "user", "content": text},), **fields)


def vllm(bodies: list[dict[str, Any]], most: int = 100) -> Handler:
    """Counts a token a word, three for the template, and notes what it is asked."""

    async def answer(request: web.Request) -> web.StreamResponse:
        if request.path != "/tokenize":
            return web.json_response({"detail": "Not Found"}, status=404)
        body = await request.json()
        bodies.append(body)
        text = " ".join(message["content"] for message in body["messages"])
        if "refused" in text:
            error = {"message": "roles must alternate", "type": "BadRequestError", "code": 400}
            return web.json_response({"error": error}, status=400)
        tokens = [*range(len(text.split()) + 3 * body["add_generation_prompt"])]
        return web.json_response(
            {"count": len(tokens), "max_model_len": most, "tokens": tokens, "token_strs": None}
        )

    return answer


def count(
    handler: Handler, prompts: Sequence[Prompt], sampling: dict[str, Any] | None = None
) -> list[Counted | None]:
    async def scenario() -> list[Counted | None]:
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


def test_a_prompt_that_the_template_refuses_is_not_counted() -> None:
    prompts = [prompt("one"), prompt("refused"), prompt("one two")]
    assert count(vllm([]), prompts) == [Counted(4, 100), None, Counted(5, 100)]


def test_the_order_is_that_of_the_prompts() -> None:
    prompts = [prompt("word " * number) for number in range(1, 60)]
    counted = count(vllm([]), prompts)
    assert [one.tokens for one in counted if one] == [number + 3 for number in range(1, 60)]


@pytest.mark.parametrize("status", [404, 405, 501])
def test_a_server_that_does_not_count_is_asked_once(status: int) -> None:
    asked: list[str] = []

    async def answer(request: web.Request) -> web.StreamResponse:
        asked.append(request.path)
        return web.Response(status=status)

    assert count(answer, [prompt("a"), prompt("b"), prompt("c")]) == [None] * 3
    assert asked == ["/tokenize"]


@pytest.mark.parametrize("text", ["<html>", "[1]", '{"count": 4}', '{"count": null}'])
def test_another_answer_is_no_count(text: str) -> None:
    async def answer(_: web.Request) -> web.StreamResponse:
        return web.Response(text=text)

    assert count(answer, [prompt("a")]) == [None]


def test_no_server_and_no_prompts() -> None:
    assert asyncio.run(context.count("http://127.0.0.1:9/v1", "m", [prompt("a")], {})) == [None]
    assert asyncio.run(context.count("http://127.0.0.1:9/v1", "m", [], {})) == []
