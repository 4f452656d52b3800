"""What a server refuses of the tap's is not asked for again; what the client sent stays."""

import json
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from spectap.golden import answers
from tests.tapped import bench, chat, server

pytestmark = pytest.mark.anyio

USAGE, STATS = "include_usage", "continuous_usage_stats"
EVENT = answers.Answer("id", "m", 1, chat=True, prompt_tokens=2).chunk("one", False, 1, usage=False)


class Strict:
    """A server that refuses these options with this status and text; ``asked`` has all bodies."""

    def __init__(self, refuses: set[str], text: str, status: int = 400, chunked: bool = False):
        self.refuses, self.text, self.status, self.chunked = refuses, text, status, chunked
        self.asked: list[dict[str, Any]] = []

    async def answer(self, request: web.Request) -> web.StreamResponse:
        body = json.loads(await request.read())
        self.asked.append(body)
        if self.refuses & {*body.get("stream_options", {}), *body}:
            if not self.chunked:
                return web.Response(status=self.status, text=self.text)
            response = web.StreamResponse(status=self.status)
            await response.prepare(request)
            for character in self.text:
                await response.write(character.encode())
            return response
        return web.Response(body=EVENT + answers.DONE, content_type="text/event-stream")


# Mistral, Azure, OpenAI, a proxy that says nothing, and vLLM before 0.5.1 by pydantic.
REFUSALS = [
    Strict({STATS}, '{"detail": [{"loc": ["body", "stream_options", "continuous_usage', 422),
    Strict({"stream_options"}, "Unrecognized request argument supplied: stream_options"),
    Strict({STATS}, "Unknown parameter: 'stream_options.continuous_usage_stats'.", chunked=True),
    Strict({"stream_options"}, "", 422),
]


@pytest.mark.parametrize("strict", REFUSALS)
async def test_the_client_s_request_succeeds_and_the_refusal_is_learnt(
    tmp_path: Path, strict: Strict
) -> None:
    strict.asked.clear()
    async with server(strict.answer) as url, bench(url, tmp_path) as b:
        for _ in range(3):
            assert await b.post(chat()) == (200, EVENT + answers.DONE)
    whole = "stream_options" not in strict.refuses
    options = {"stream_options": {USAGE: True}} if whole else {}
    assert strict.asked[-3:] == [chat(**options)] * 3
    assert len(strict.asked) == (4 if whole else 5)
    assert [record.status for record in b.records()] == [200] * 3
    assert b.tap.server.lost.startswith(STATS if whole else "stream_options")


async def test_what_the_client_sent_is_not_taken_back(tmp_path: Path) -> None:
    strict = Strict({"stream_options"}, "Unknown parameter: 'stream_options'.")
    own = chat(stream_options={USAGE: True})
    async with server(strict.answer) as url, bench(url, tmp_path) as b:
        assert (await b.post(own))[0] == 400
        assert (await b.post(chat(max_tokens=3)))[0] == 200
        # A client that is not ours keeps its names.
        strict.refuses, strict.text = {"max_tokens"}, "Use 'max_completion_tokens' instead"
        assert await b.post(chat(max_tokens=3)) == (400, strict.text.encode())
    assert strict.asked[1] == own
    assert strict.asked[-1] == chat(max_tokens=3)
    assert [record.status for record in b.records()] == [400, 200, 400]


async def test_a_server_that_took_the_options_is_not_doubted(tmp_path: Path) -> None:
    strict = Strict(set(), "the prompt is too long")
    async with server(strict.answer) as url, bench(url, tmp_path) as b:
        await b.post(chat())
        strict.refuses = {"messages"}
        assert (await b.post(chat()))[0] == 400
        assert (len(strict.asked), b.tap.server.lost) == (2, "")
        strict.text = "x" * 10**6  # it passes as it comes
        assert await b.post(chat()) == (400, strict.text.encode())
