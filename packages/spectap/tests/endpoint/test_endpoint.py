"""What is asked of a server besides the load: health, models, lengths, counters, greedy answers."""

import asyncio
import json
import re
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import pytest
from aiohttp import web

from spectap.endpoint import context, counters, health
from spectap.endpoint.context import Counted, Refused
from spectap.endpoint.counters import Counters, Obstacle, Page, scrape
from spectap.endpoint.greedy import Divergence, compare
from spectap.errors import EndpointError
from spectap.golden.server import GoldenEndpoint
from spectap.load_points import Load
from spectap.prompt import Prompt
from tests import samples
from tests.tapped import Handler, server


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


@pytest.mark.anyio
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


@pytest.mark.anyio
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


@pytest.mark.anyio
async def test_a_slow_health_is_passed_by(monkeypatch: pytest.MonkeyPatch) -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        await asyncio.sleep(request.path == "/health")
        return web.json_response({"data": [{"id": "m"}]})

    monkeypatch.setattr(health, "_ONE_TRY_SECONDS", 0.3)
    async with server(answer) as url:
        assert await wait({"SD": url}, 0, []) == []


@pytest.mark.anyio
async def test_https_before_a_server_without_it_is_named() -> None:
    async with server(answering(models=200)) as url:
        (problem,) = await wait({"SD": url.replace("http", "https")}, 3600, [])
    assert "no TLS: " in problem
    assert problem.endswith("is it http://?")


@pytest.mark.anyio
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


def count(
    handler: Handler, prompts: Sequence[Prompt], **load: Any
) -> list[Counted | Refused | None]:
    async def scenario() -> list[Counted | Refused | None]:
        async with server(handler) as url:
            return await context.count(
                url, "target", prompts, Load.model_validate(samples.load(**load))
            )

    return asyncio.run(scenario())


def test_prompts_are_counted_as_they_will_be_sent() -> None:
    bodies: list[dict[str, Any]] = []
    tools = ({"type": "function", "function": {"name": "add", "parameters": {}}},)
    kwargs = {"enable_thinking": False}
    prompts = [samples.prompt(text="one"), samples.prompt(text="one two three", tools=tools)]
    sampling = {"temperature": 0, "chat_template_kwargs": kwargs}
    counted = [Counted(4, 100), Counted(6, 100)]
    assert count(vllm(bodies), prompts, sampling=sampling) == counted
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
    assert count(vllm(bodies), prompts[:1], endpoint_type="completions") == [Counted(1, 100)]
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
def test_each_prompt_is_counted_or_refused_in_order(texts: list[str], expected: list[Any]) -> None:
    assert count(vllm([]), [samples.prompt(text=text) for text in texts]) == expected


@pytest.mark.parametrize(("status", "text"), [(404, ""), (200, '{"count": 4}')])
def test_a_server_that_does_not_count_is_asked_for_two_prompts(status: int, text: str) -> None:
    paths: list[str] = []

    async def answer(request: web.Request) -> web.StreamResponse:
        paths.append(request.path)
        return web.Response(status=status, text=text)

    assert count(answer, [*map(samples.prompt, "abc")]) == [None] * 3
    assert paths == ["/tokenize"] * 2


# As vLLM 0.32 writes it, with what matters here.
PAGE = """\
# TYPE vllm:generation_tokens_total counter
vllm:generation_tokens_total{engine="0",model_name="m"} 120.0
# TYPE vllm:spec_decode_num_drafts_total counter
vllm:spec_decode_num_drafts_total{engine="0",model_name="m"} 16.0
# TYPE vllm:spec_decode_num_draft_tokens_total counter
vllm:spec_decode_num_draft_tokens_total{engine="0",model_name="m"} 112.0
# TYPE vllm:spec_decode_num_accepted_tokens_total counter
vllm:spec_decode_num_accepted_tokens_total{engine="0",model_name="m"} 19.0
# TYPE vllm:spec_decode_num_accepted_tokens_per_pos_total counter
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",model_name="m",position="0"} 12.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",model_name="m",position="1"} 7.0
# TYPE vllm:request_generation_tokens histogram
vllm:request_generation_tokens_count{engine="0",model_name="m"} 2.0
vllm:request_generation_tokens_sum{engine="0",model_name="m"} 120.0
# TYPE vllm:inter_token_latency_seconds histogram
vllm:inter_token_latency_seconds_count{engine="0",model_name="m"} 17.0
vllm:inter_token_latency_seconds_sum{engine="0",model_name="m"} 1.9
"""


NOTHING = Page({}, 0)


def parse(text: str, model: str = "m") -> Counters | None:
    return page.since(NOTHING) if (page := counters.parse(text, model)) else None


def under(text: str, label: str, value: str) -> str:
    """The same series with this label, added or changed."""
    if f'{label}="' in text:
        return re.sub(f'{label}="[^"]*"', f'{label}="{value}"', text)
    return text.replace("{", f'{{{label}="{value}",')


OF_VLLM = Counters(120, 16, 112, 19, (12, 7), 120, 2, 17)
LINES = PAGE.splitlines(keepends=True)
OLD_NAME = "".join(
    line.replace("inter_token_latency", "time_per_output_token")
    for line in LINES
    if "vllm:inter_token" in line
)
SECOND_ENGINE = under("".join(line for line in LINES if not line.startswith("#")), "engine", "1")
TWICE = Counters(240, 32, 224, 38, (24, 14), 240, 4, 34)


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        (PAGE, OF_VLLM),
        # 0.11 exports one series under two names.
        (PAGE + OLD_NAME, OF_VLLM),
        (PAGE + SECOND_ENGINE, TWICE),
        ("not metrics {", None),
        # What gathers several servers' pages labels each; another model's are not ours.
        (under(PAGE, "pod", "a") + under(PAGE, "pod", "b"), TWICE),
        (PAGE + under(SECOND_ENGINE, "model_name", "other"), OF_VLLM),
        (under(PAGE, "model_name", "served as"), OF_VLLM),
        # OpenTelemetry's exporters know no colon, and a page may have both forms.
        (PAGE.replace("vllm:", "vllm_"), OF_VLLM),
        (PAGE + PAGE.replace("vllm:", "vllm_"), OF_VLLM),
        (
            PAGE + "vllm:prefix_cache_hits_total 96\nvllm:prefix_cache_queries_total 128\n",
            replace(OF_VLLM, cache_hits=96, cache_queries=128),
        ),
        (
            'sglang:generation_tokens_total{tp_rank="0"} 24\n'
            'sglang:cached_tokens_total{cache_source="device"} 30\n'
            'sglang:cached_tokens_total{cache_source="host"} 2\n'
            "sglang:prompt_tokens_total 40\n",
            Counters(24, cache_hits=32, cache_queries=40),
        ),
        ("llamacpp:tokens_predicted_total 24\n", Counters(24)),
        ("vllm:num_requests_running 0\n", None),
    ],
)
def test_a_page(page: str, expected: Counters | None) -> None:
    assert parse(page) == expected


BEGAN = "process_start_time_seconds 1.7e9\n"


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (PAGE, PAGE + SECOND_ENGINE, None),  # an engine's series begin with its first request
        (PAGE + BEGAN, PAGE + BEGAN, None),
        (PAGE + BEGAN, PAGE + BEGAN.replace("7", "8"), Obstacle.PROCESS),
        (PAGE, PAGE.replace(" 17.0", " 3.0"), Obstacle.FELL),
        # One of two engines began anew, and the sum did not fall.
        (PAGE + SECOND_ENGINE, PAGE.replace("120.0", "900.0"), Obstacle.FELL),
        (under(PAGE, "pod", "a"), under(PAGE.replace("120.0", "900.0"), "pod", "b"), Obstacle.FELL),
        (
            PAGE + 'vllm:generation_tokens_created{engine="0"} 1.7e9\n',
            PAGE + 'vllm:generation_tokens_created{engine="0"} 1.8e9\n',
            Obstacle.PROCESS,
        ),
        *((PAGE, PAGE.replace("120.0", value), Obstacle.NUMBER) for value in ("NaN", "+Inf", "-1")),
        (PAGE.replace(" 17.0", " 1e300"), PAGE, Obstacle.NUMBER),
    ],
)
def test_what_lies_between_two_pages_of_one_server_alone(
    before: str, after: str, expected: Obstacle | None
) -> None:
    first, second = counters.parse(before, "m"), counters.parse(after, "m")
    assert first is not None
    assert second is not None
    assert second.obstacle_since(first) is expected
    second.since(first)  # is a number in any case


def test_what_was_counted_between() -> None:
    earlier, later = counters.parse(PAGE), counters.parse(PAGE + SECOND_ENGINE)
    assert earlier is not None
    assert later is not None
    assert later.since(earlier) == OF_VLLM
    # V0 begins to show a histogram with its first value.
    bare = counters.parse("vllm:generation_tokens_total 0\n")
    assert bare is not None
    assert bare.since(bare) == Counters(0)
    assert earlier.since(bare) == OF_VLLM
    assert replace(OF_VLLM, finished_tokens=119).tokens == 119
    assert replace(OF_VLLM, finished_tokens=None).tokens == 120


def scraped(pages: Sequence[str]) -> Page:
    """What ``scrape`` takes of a server that shows one page after the other, the last for ever."""
    remaining = iter(pages)
    last = pages[-1]

    async def metrics(request: web.Request) -> web.Response:
        return web.Response(text=next(remaining, last))

    async def scenario() -> Page:
        async with server(metrics) as url:
            page = await scrape(url)
        assert page is not None
        return page

    return asyncio.run(scenario())


def of(generated: int, finished: int, running: int) -> str:
    """A page in mid-load: so many tokens, so many of them in answers that have ended."""
    return (
        f"vllm:num_requests_running {running}\n"
        f"vllm:generation_tokens_total {generated}\n"
        f"vllm:request_generation_tokens_sum {finished}\n"
        f"vllm:request_generation_tokens_count {finished // 8}\n"
    )


@pytest.mark.parametrize(
    "pages",
    [
        pytest.param([of(8, 0, 0)], id="a page written while the last step was counted"),
        pytest.param([of(5, 0, 1), of(6, 0, 1), of(8, 0, 0)], id="answers still coming"),
    ],
)
def test_counters_are_taken_when_every_answer_has_ended(pages: list[str]) -> None:
    assert scraped([*pages, of(8, 8, 0)]) == counters.parse(of(8, 8, 0))
    # A server that seems never to rest is taken as it is.
    assert scraped([of(8, 8, 1)]) == counters.parse(of(8, 8, 1))


def test_two_servers_that_take_turns_at_one_url_are_noticed() -> None:
    assert scraped([of(96, 96, 0), of(8, 8, 0)] * 20).obstacle is Obstacle.FELL


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


@pytest.mark.anyio
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


class Answering:
    """An endpoint that always gives the same answer, by default this text.

    It may be ``strict``, and refuse what OpenAI's API does not have.
    """

    def __init__(self, text: str = "", *, strict: bool = False, **choice: Any) -> None:
        self.choice = choice or {"message": {"content": text}}
        self.strict = strict
        self.asked: list[dict[str, Any]] = []

    async def answer(self, request: web.Request) -> web.Response:
        self.asked.append(await request.json())
        refuses = self.strict and {"return_token_ids", "max_tokens"} & {*self.asked[-1]}
        return web.json_response({"choices": [self.choice]}, status=400 if refuses else 200)


def compared(
    settings: Mapping[str, Any] = MappingProxyType({}), **answering: Answering | None
) -> list[Divergence]:
    """Divergences of these variants; None is one that is down."""

    async def scenario() -> list[Divergence]:
        async with AsyncExitStack() as stack:
            urls = {
                name: await stack.enter_async_context(server(each.answer))
                if each
                else "http://127.0.0.1:1/v1"
                for name, each in answering.items()
            }
            variants = [
                variant | settings.get(variant["name"], {}) for variant in samples.variants(**urls)
            ]
            return await compare(samples.config(variants=variants))

    return asyncio.run(scenario())


@pytest.mark.parametrize(
    ("base", "speculative", "length", "first"),
    [
        ("one two three", "one 2 three", 3, 2),
        ("one two", "one two three", 3, 3),
        ("", "", 0, None),
    ],
)
def test_the_first_difference(base: str, speculative: str, length: int, first: int | None) -> None:
    expected = [Divergence("SD", name, "word", length, first) for name in ("counting", "sonnets")]
    assert compared(Base=Answering(base), SD=Answering(speculative)) == expected


def said(text: str, ids: list[int]) -> Answering:
    return Answering(message={"content": text}, token_ids=ids)


@pytest.mark.parametrize(
    ("speculative", "unit", "first"),
    [
        (said("one two", [7, 8, 9]), "token", 2),  # the text hides it
        (said("one two", [7, 5, 9]), "token", None),
        (Answering("one two"), "word", None),
        (Answering("one 2", strict=True), "word", 2),
    ],
)
def test_tokens_are_compared_where_both_sides_say_them(
    speculative: Answering, unit: str, first: int | None
) -> None:
    divergences = compared(Base=said("one two", [7, 5, 9]), SD=speculative)
    assert {(each.unit, each.first) for each in divergences} == {(unit, first)}


def test_a_matched_baseline_is_compared_with_the_one_that_decides() -> None:
    without = {"without": "async scheduling"}
    settings = {"SD": without, "Base-matched": without | {"baseline": None}}
    endpoints = {"Base": Answering("a b"), "SD": Answering("a c"), "Base-matched": Answering("a d")}
    divergences = compared(settings, **endpoints)
    assert {(each.variant, each.first) for each in divergences} == {("SD", 2), ("Base-matched", 2)}


def test_each_variant_gets_the_same_and_is_compared_with_its_baseline() -> None:
    base, k7 = Answering("one two"), Answering("one three")
    other = Answering(message={"content": [{"text": "a"}]})
    divergences = compared(Base=base, k3=Answering("one two"), k5=None, k6=other, k7=k7)
    assert [(each.variant, each.case, each.first) for each in divergences] == [
        ("k3", "counting", None),
        ("k7", "counting", 2),
        ("k3", "sonnets", None),
        ("k7", "sonnets", 2),
    ]
    assert base.asked == k7.asked
    assert {(body["temperature"], body["max_tokens"]) for body in base.asked} == {(0, 20)}
    assert len({body["messages"][0]["content"] for body in base.asked}) == 2
