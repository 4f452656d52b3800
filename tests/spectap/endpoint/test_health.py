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


async def wait(endpoints: dict[str, str], seconds: float, said: list[str]) -> list[str]:
    return await health.wait(
        endpoints, patience_seconds=seconds, say=said.append, poll_seconds=0.02
    )


def test_goes_on_when_both_serve() -> None:
    async def scenario() -> None:
        async with Golden(lambda *_: []) as base, Golden(lambda *_: []) as speculative:
            said: list[str] = []
            speculative.healthy = False
            endpoints = {"Base": base.url, "SD": speculative.url}
            waiting = asyncio.create_task(wait(endpoints, 60, said))
            while not said:
                await asyncio.sleep(0.02)
            await asyncio.sleep(0.2)  # some polls more
            assert not waiting.done()
            speculative.healthy = True
            assert await waiting == []
            # Once, not at each poll.
            (line,) = said
            begin = re.escape(f"waiting for SD ({speculative.url}): HTTP 503, for ")
            assert re.fullmatch(begin + r"\d+ s of at most 60 s", line)

    asyncio.run(scenario())


def test_says_who_does_not_serve() -> None:
    async def scenario() -> None:
        async with Golden(lambda *_: []) as base:
            endpoints = {"Base": base.url, "SD": "http://127.0.0.1:9/v1"}
            problems = await wait(endpoints, 0.1, [])
            assert problems == [
                "not serving after 0 s: SD (http://127.0.0.1:9/v1), at the last try: not reachable"
            ]
            problems = await wait({"SD": "http://no-such-host.invalid/v1"}, 0, [])
            assert "name is not known" in problems[0]

    asyncio.run(scenario())


def answering(**answers: int | str) -> Handler:
    """A server that answers at these paths, by their last part: with a status or with a text."""

    async def answer(request: web.Request) -> web.StreamResponse:
        found = answers.get(request.path.rpartition("/")[2], 404)
        return web.Response(status=found) if isinstance(found, int) else web.Response(text=found)

    return answer


@pytest.mark.parametrize("status", [404, 405])
def test_a_server_without_health_is_asked_for_its_models(status: int) -> None:
    async def scenario() -> None:
        async with server(answering(health=status, models=200)) as url:
            assert await wait({"Base": url}, 0, []) == []
        async with server(answering(health=status, models=503)) as url:
            (problem,) = await wait({"Base": url}, 0, [])
            assert problem == f"not serving after 0 s: Base ({url}), at the last try: HTTP 503"

    asyncio.run(scenario())


@pytest.mark.parametrize(
    "answers", [{"health": 401, "models": 401}, {"health": 404, "models": 403}, {}]
)
def test_a_refusal_ends_the_wait_and_names_where_to_look(
    monkeypatch: pytest.MonkeyPatch, answers: dict[str, int]
) -> None:
    async def scenario() -> None:
        async with server(answering(**answers)) as url, Golden(lambda *_: []) as base:
            base.healthy = False
            said: list[str] = []
            (problem,) = await wait({"Base": base.url, "SD": url}, 3600, said)
            status = answers.get("models", 404)
            where = f"SD: {url}/models: HTTP {status}: check the URL and OPENAI_API_KEY, which is"
            assert (problem, said) == (f"{where} not set", [])
            monkeypatch.setenv("OPENAI_API_KEY", "secret")
            assert await wait({"SD": url}, 3600, said) == [f"{where} set"]

    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    asyncio.run(scenario())


def test_a_server_that_is_not_healthy_is_not_asked_for_its_models() -> None:
    async def scenario() -> None:
        unhealthy = answering(health=503, models=200)
        async with server(unhealthy) as url:
            (problem,) = await wait({"Base": url}, 0, [])
            assert problem.endswith("HTTP 503")

    asyncio.run(scenario())


def test_models_of_a_server() -> None:
    async def scenario() -> None:
        listed = {"data": [{"id": "target"}, {"id": "a\x1b[2J\nb"}]}
        async with server(answering(models=json.dumps(listed))) as url:
            assert await health.models(url) == ["target", "a\ufffd[2J\ufffdb"]

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (401, "HTTP 401"),
        ("<html>", "the answer is no list of models"),
        ('["a"]', "the answer is no list of models"),
        ('{"data": null}', "the answer is no list of models"),
    ],
)
def test_models_that_are_not_told(answer: int | str, message: str) -> None:
    async def scenario() -> None:
        async with server(answering(models=answer)) as url:
            with pytest.raises(EndpointError) as refusal:
                await health.models(url)
            assert str(refusal.value) == f"{url}/models: {message}"
        with pytest.raises(EndpointError, match="not reachable"):
            await health.models("http://127.0.0.1:9/v1")

    asyncio.run(scenario())
