"""The tokens of prompts, by a server's count."""

from collections.abc import Sequence
from typing import Any

import pytest
from aiohttp import web

from spectap.endpoint import context
from spectap.endpoint.context import Counted, Refused
from spectap.inputs.load_points import Load
from spectap.inputs.prompt import Prompt
from tests import samples
from tests.tapped import Handler, server

pytestmark = pytest.mark.anyio


def vllm(bodies: list[dict[str, Any]], most: int = 100) -> Handler:
    """Counts a token a word, three for the template, and notes what it is asked."""

    async def answer(request: web.Request) -> web.StreamResponse:
        if request.path != "/tokenize":
            return web.Response(status=404)
        body = await request.json()
        bodies.append(body)
        text = body.get("prompt") or body["messages"][0]["content"]
        if text.isdigit():
            return web.Response(status=int(text))
        if "refused" in text:
            reason = "no " * 100 if "long" in text else "roles\n must alternate"
            error = {"message": reason, "type": "BadRequestError", "code": 400}
            return web.json_response({"error": error}, status=400)
        tokens = len(text.split()) + 3 * ("add_generation_prompt" in body)
        return web.json_response({"count": tokens, "max_model_len": most, "token_strs": None})

    return answer


async def count(
    handler: Handler, prompts: Sequence[Prompt], **load: Any
) -> list[Counted | Refused | None]:
    shape = Load.model_validate(samples.load(**load))
    async with server(handler) as url:
        return await context.count(url, "target", prompts, shape)


async def test_prompts_are_counted_as_they_will_be_sent() -> None:
    bodies: list[dict[str, Any]] = []
    tools = ({"type": "function", "function": {"name": "add", "parameters": {}}},)
    kwargs = {"enable_thinking": False}
    prompts = [samples.prompt(text="one"), samples.prompt(text="one two three", tools=tools)]
    sampling = {"temperature": 0, "chat_template_kwargs": kwargs}
    counted = [Counted(4, 100), Counted(6, 100)]
    assert await count(vllm(bodies), prompts, sampling=sampling) == counted
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
    # A completion has no chat template.
    assert await count(vllm(bodies), prompts[:1], endpoint_type="completions") == [Counted(1, 100)]
    assert bodies[2:] == [{"model": "target", "prompt": "one"}]


REFUSED = Refused("roles must alternate")


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (["refused", "one", "one two"], [REFUSED, Counted(4, 100), Counted(5, 100)]),
        # Such a server does not understand the question.
        (["refused", "refused"], [None, None]),
        (["long refused", "one"], [Refused("no " * 66 + "n…"), Counted(4, 100)]),
        # A failure at one prompt says nothing of the others.
        (["500", "one", "404", "one"], [None, Counted(4, 100), None, Counted(4, 100)]),
    ],
)
async def test_each_prompt_is_counted_or_refused(texts: list[str], expected: list[Any]) -> None:
    assert await count(vllm([]), [samples.prompt(text=text) for text in texts]) == expected


@pytest.mark.parametrize(("status", "text"), [(404, ""), (200, '{"count": 4}')])
async def test_one_that_does_not_count_is_asked_for_two_prompts(status: int, text: str) -> None:
    paths: list[str] = []

    async def answer(request: web.Request) -> web.StreamResponse:
        paths.append(request.path)
        return web.Response(status=status, text=text)

    assert await count(answer, [*map(samples.prompt, "abc")]) == [None] * 3
    assert paths == ["/tokenize"] * 2
