"""Waiting for endpoints."""

from __future__ import annotations

import asyncio
import json
import re

import pytest
from aiohttp import web

from rehearsal.golden.server import Golden
from spectap.endpoint import health
from spectap.errors import EndpointError
from tests.spectap.tapped import Handler, server

pytestmark = pytest.mark.anyio


async def wait(endpoints: dict[str, str], seconds: float, messages: list[str]) -> list[str]:
    return await health.wait(
        endpoints, patience_seconds=seconds, say=messages.append, poll_seconds=0.02
    )


async def test_goes_on_when_both_serve() -> None:
    async with Golden(lambda *_: []) as base, Golden(lambda *_: []) as speculative:
        messages: list[str] = []
        speculative.healthy = False
        endpoints = {"Base": base.url, "SD": speculative.url}
        waiting = asyncio.create_task(wait(endpoints, 60, messages))
        while not messages:
            await asyncio.sleep(0.02)
        await asyncio.sleep(0.2)  # some polls more
        assert not waiting.done()
        speculative.healthy = True
        assert await waiting == []
        # Once, not at each poll.
        (line,) = messages
        begin = re.escape(f"waiting for SD ({speculative.url}): HTTP 503, for ")
        assert re.fullmatch(begin + r"\d+ s of at most 60 s", line)


def answering(**answers: int | str) -> Handler:
    """A server that answers at these paths, by their last part: with a status or with a text."""

    async def answer(request: web.Request) -> web.StreamResponse:
        response = answers.get(request.path.rpartition("/")[2], 404)
        return (
            web.Response(status=response)
            if isinstance(response, int)
            else web.Response(text=response)
        )

    return answer


@pytest.mark.parametrize(
    ("answers", "state"),
    [
        ({"health": 404, "models": 200}, None),
        ({"health": 405, "models": 503}, "HTTP 503"),
        ({"health": 503, "models": 200}, "HTTP 503"),
    ],
)
async def test_a_server_without_health_is_asked_for_its_models(
    answers: dict[str, int], state: str | None
) -> None:
    async with server(answering(**answers)) as url:
        line = f"not serving after 0 s: Base ({url}), at the last try: {state}"
        assert await wait({"Base": url}, 0, []) == ([line] if state else [])


async def test_a_server_that_is_down_is_named() -> None:
    urls = {"Base": "http://127.0.0.1:9/v1", "SD": "http://no-such-host.invalid/v1"}
    base, speculative = await wait(urls, 0, [])
    assert base.endswith("Base (http://127.0.0.1:9/v1), at the last try: not reachable")
    assert "name is not known" in speculative


@pytest.mark.parametrize(
    "answers", [{"health": 401, "models": 401}, {"health": 404, "models": 403}, {}]
)
async def test_a_refusal_ends_the_wait_and_names_where_to_look(
    monkeypatch: pytest.MonkeyPatch, answers: dict[str, int]
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    async with server(answering(**answers)) as url, Golden(lambda *_: []) as base:
        base.healthy = False
        messages: list[str] = []
        (problem,) = await wait({"Base": base.url, "SD": url}, 3600, messages)
        status = answers.get("models", 404)
        refusal = f"SD: {url}/models: HTTP {status}: check the URL and OPENAI_API_KEY, which is"
        assert (problem, messages) == (f"{refusal} not set", [])
        monkeypatch.setenv("OPENAI_API_KEY", "secret")
        assert await wait({"SD": url}, 3600, messages) == [f"{refusal} set"]


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (401, "HTTP 401"),
        ("<html>", "the answer is no list of models"),
        ('["a"]', "the answer is no list of models"),
        ('{"data": null}', "the answer is no list of models"),
    ],
)
async def test_models(answer: int | str, message: str) -> None:
    listed = {"data": [{"id": "target"}, {"id": "a\x1b[2J\nb"}]}
    async with server(answering(models=json.dumps(listed))) as url:
        assert await health.models(url) == ["target", "a\ufffd[2J\ufffdb"]
    async with server(answering(models=answer)) as url:
        with pytest.raises(EndpointError) as refusal:
            await health.models(url)
        assert str(refusal.value) == f"{url}/models: {message}"
    with pytest.raises(EndpointError, match="not reachable"):
        await health.models("http://127.0.0.1:9/v1")
