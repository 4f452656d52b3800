"""The wait for endpoints, and which model each is asked for."""

import asyncio
import json

import pytest
from aiohttp import web

from spectap.endpoint import health
from spectap.errors import EndpointError
from spectap.golden.server import GoldenEndpoint
from tests.tapped import Handler, server

pytestmark = pytest.mark.anyio


async def wait(endpoints: dict[str, str], seconds: float, messages: list[str]) -> list[str]:
    return await health.wait(endpoints, patience_seconds=seconds, say=messages.append)


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


@pytest.mark.parametrize("answers", [{"health": 404, "models": 403}, {}])
async def test_a_refusal_ends_the_wait_and_names_where_to_look(
    monkeypatch: pytest.MonkeyPatch, answers: dict[str, int]
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    async with server(answering(**answers)) as url, GoldenEndpoint(lambda *_: []) as base:
        base.healthy = False
        messages: list[str] = []
        (problem,) = await wait({"Base": base.url, "SD": url}, 3600, messages)
        status = answers.get("models", 404)
        refusal = f"SD: {url}/models: HTTP {status}: check the URL and OPENAI_API_KEY, which is"
        assert (problem, messages) == (f"{refusal} not set", [])
        monkeypatch.setenv("OPENAI_API_KEY", "secret")
        assert await wait({"SD": url}, 3600, messages) == [f"{refusal} set"]


@pytest.mark.parametrize("path", ["health", "models"])
@pytest.mark.parametrize("location", ["http://127.0.0.1:9/x", "//127.0.0.1:9/x", "http://[", "/x"])
async def test_a_redirect_is_named_and_not_followed(path: str, location: str) -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        if request.path.endswith(path):
            return web.Response(status=307, headers={"Location": location})
        return web.Response(status=404)

    async with server(answer) as url:
        (problem,) = await wait({"SD": url}, 3600, [])
    assert problem.endswith(f"/{path}: HTTP 307 redirects to {location}: name that")


async def test_a_slow_health_is_passed_by(monkeypatch: pytest.MonkeyPatch) -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        await asyncio.sleep(request.path == "/health")
        return web.json_response({"data": [{"id": "m"}]})

    monkeypatch.setattr(health, "_ONE_TRY_SECONDS", 0.3)
    async with server(answer) as url:
        assert await wait({"SD": url}, 0, []) == []


async def test_https_before_a_server_without_it_is_named() -> None:
    async with server(answering(models=200)) as url:
        (problem,) = await wait({"SD": url.replace("http", "https")}, 3600, [])
    assert "no TLS: " in problem
    assert problem.endswith("is it http://?")


@pytest.mark.parametrize(
    ("answer", "message"), [(401, "HTTP 401"), ('["a"]', "the answer is not a list of models")]
)
async def test_models(answer: int | str, message: str) -> None:
    listed = [{"id": "target"}, {"id": "a\x1b[2J\nb"}]
    for body in ({"data": listed}, listed):  # Together's is the list itself
        async with server(answering(models=json.dumps(body))) as url:
            assert await health.models(url) == ["target", "a\ufffd[2J\ufffdb"]
    async with server(answering(models=answer)) as url:
        with pytest.raises(EndpointError) as refusal:
            await health.models(url)
        assert str(refusal.value) == f"{url}/models: {message}"
    with pytest.raises(EndpointError, match="not reachable"):
        await health.models("http://127.0.0.1:9/v1")


@pytest.mark.parametrize(
    ("endpoint", "root"),
    [
        ("http://h:8000/v1", "http://h:8000"),
        ("https://h/base/v1/", "https://h/base"),
        ("http://h/models/qwen", "http://h/models/qwen"),
        ("http://h/v1/base/v3", "http://h/v1/base"),
    ],
)
def test_a_server_behind_a_path_is_asked_there(endpoint: str, root: str) -> None:
    """At the host's root may be another server, or the gateway itself."""
    assert health.root(endpoint) == root


SERVED = {
    **{"a": ["qwen3:latest"], "b": ["qwen3"], "c": ["models/gemini"], "d": ["gemini"]},
    **{"e": ["Qwen/Qwen3-8B"], "f": ["qwen3:8b"], "g": ["plain", "speculative"]},
}
NONE_COMMON = (
    "there is no one model that all endpoints serve: name one by --model, or one each by "
    "NAME=URL#MODEL: Base: qwen3:latest; SD: Qwen/Qwen3-8B"
)
TWICE_ASKED = (
    "Base and SD are the same model of the same server (plain at g): of a router, name the model "
    "of each by NAME=URL#MODEL"
)


@pytest.mark.parametrize(
    ("endpoints", "model", "chosen"),
    [
        ("a b", None, "qwen3:latest qwen3"),  # a name that is surely the same
        ("c d", "gemini", "models/gemini gemini"),
        ("g#plain g#speculative", None, "plain speculative"),
        ("a g#plain", None, "qwen3:latest plain"),
        ("e e", "qwen3-8b", "Base has no model 'qwen3-8b'; it serves Qwen/Qwen3-8B"),
        ("f b", "qwen3", "Base has no model 'qwen3'; it serves qwen3:8b"),
        ("a#nope", None, "Base has no model 'nope'; it serves qwen3:latest"),
        ("a e", None, NONE_COMMON),
        ("g#plain g", "plain", TWICE_ASKED),
    ],
)
async def test_the_model_that_each_is_asked_for(
    monkeypatch: pytest.MonkeyPatch, endpoints: str, model: str | None, chosen: str
) -> None:
    async def models(url: str) -> list[str]:
        return SERVED[url]

    monkeypatch.setattr(health, "models", models)
    given = [
        health.Endpoint(name, each[0], each[2:] or None)
        for name, each in zip(("Base", "SD"), endpoints.split(), strict=False)
    ]
    try:
        outcome = " ".join((await health.choose_models(given, model)).values())
    except EndpointError as refusal:
        outcome = str(refusal)
    assert outcome == chosen
