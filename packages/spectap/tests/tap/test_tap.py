"""The tap between real clients and golden servers: it changes nothing and records everything."""

import asyncio
import json
import resource
import statistics
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from spectap import metrics, names
from spectap.golden import answers
from tests.tapped import (
    Bench,
    bench,
    chat,
    completion,
    eventually,
    golden,
    parts,
    server,
)

pytestmark = pytest.mark.anyio

Requests = list[tuple[Mapping[str, str], bytes]]


@asynccontextmanager
async def watched(folder: Path) -> AsyncIterator[tuple[Bench, Requests]]:
    """A tap before a server that notes headers and body of each request, and answers ``{}``."""
    requests: Requests = []

    async def watch(request: web.Request) -> web.StreamResponse:
        requests.append((request.headers, await request.read()))
        return web.json_response({})

    async with server(watch) as url, bench(url, folder) as b:
        yield b, requests


def without_time(stream: bytes) -> bytes:
    """A stream without what differs from request to request."""
    events = []
    for block in stream.split(b"\n\n"):
        data = block.removeprefix(b"data: ")
        if data.startswith(b"{"):
            event = json.loads(data)
            data = json.dumps(event | {"created": 0, "id": ""}).encode()
        events.append(data)
    return b"\n\n".join(events)


USAGE, STATS = "include_usage", "continuous_usage_stats"


@pytest.mark.parametrize(
    ("body", "path"),
    [
        (chat(), "chat/completions"),
        (completion(), "completions"),
        (completion(stream_options={USAGE: True}), "completions"),
        (chat(stream_options={USAGE: True, STATS: True}), "chat/completions"),
        (chat(stream_options={STATS: True}), "chat/completions"),
    ],
)
async def test_a_client_gets_what_it_gets_without_the_tap(
    tmp_path: Path, body: dict[str, Any], path: str
) -> None:
    async with golden(1, 4, 8, 2) as endpoint, bench(endpoint.url, tmp_path) as b:
        through, direct = await b.post(body, path), await b.post(body, path, endpoint.url)
        assert through[0] == direct[0] == 200
        assert without_time(through[1]) == without_time(direct[1])
        assert b.only().error is None
        assert b.only().per_chunk
        assert [tokens for _, tokens in b.only().chunks] == [1, 4, 8, 2]
        assert b.only().output_tokens == 15


def test_a_line_says_what_the_server_s_own_record_says(tmp_path: Path) -> None:
    """Eight streams at once of 1 to 8 tokens a chunk: no token lost, times within the bars."""

    async def scenario(folder: Path) -> tuple[float, float]:
        sizes = [1, *(1 + index % 8 for index in range(39))]
        async with golden(*sizes, gap=0.02) as endpoint, bench(endpoint.url, folder) as b:
            await asyncio.gather(*(b.post(chat()) for _ in range(8)))
            truth = {sent.id: sent for sent in endpoint.sent}
            errors, late = [], []
            for record in b.records():
                sent = truth[record.request]
                assert [tokens for _, tokens in record.chunks] == [t for _, t in sent.chunks]
                assert (record.prompt_tokens, record.output_tokens) == (2, sum(sizes))
                measured, ttft = metrics.time_per_output_token(record), metrics.ttft(record)
                assert measured is not None
                assert ttft is not None
                errors.append(abs(measured / sent.time_per_output_token - 1))
                late.append(abs(ttft - sent.ttft))
            return statistics.median(errors), statistics.median(late)

    # Whatever else the machine does only ever adds: one try in ten has to get through undisturbed.
    tries = (asyncio.run(scenario(tmp_path / str(number))) for number in range(10))
    assert any(error < 0.005 and late < 0.02 for error, late in tries)


ANSWER = answers.Answer("id", "m", 1, chat=True, prompt_tokens=2)
CHUNK = ANSWER.chunk("one", False, 1, usage=True)
UNCOUNTED = ANSWER.chunk("one", False, 1, usage=False)


async def test_a_stream_that_breaks_off_looks_broken_and_leaves_the_tap_serving(
    tmp_path: Path,
) -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        if b.records():
            return await parts(CHUNK, answers.DONE)(request)
        response = await parts(CHUNK)(request)
        assert request.transport
        request.transport.abort()
        return response

    async with server(answer) as url, bench(url, tmp_path) as b:
        with pytest.raises(aiohttp.ClientError):
            await b.post(chat())
        assert (b.only().error or "").startswith("reset: ")
        assert (await b.post(chat()))[0] == 200
        assert b.records()[1].error is None


KEY = "sk-proj-0123456789abcdef"


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("before", ["", "x" * 175])
@pytest.mark.parametrize("header", ["Authorization", "api-key"])
async def test_a_key_that_a_server_repeats_is_not_recorded(
    tmp_path: Path, header: str, before: str, streamed: bool
) -> None:
    """Wherever the error is cut off, no part of the key is left that could be guessed from."""

    async def answer(request: web.Request) -> web.StreamResponse:
        key = request.headers[header].rpartition(" ")[2]
        body = json.dumps({"error": {"message": f"{before} bad key '{key}'"}})
        if streamed:
            return web.Response(text=f"data: {body}\n\n", content_type="text/event-stream")
        return web.Response(status=401, text=body)

    sent = f"Bearer {KEY}" if header == "Authorization" else KEY
    async with server(answer) as url, bench(url, tmp_path) as b:
        await b.post(chat(), headers={header: sent})
        assert KEY[:8] not in (b.only().error or KEY)
        assert KEY not in b.path.read_text("utf-8")


OPTIONS = {"stream_options": {USAGE: True, STATS: True}}


async def test_the_server_sees_the_client_s_request(tmp_path: Path) -> None:
    long_numbers = {"seed": 12345678901234567890123, "temperature": 0.1}
    client_headers = {"Authorization": "Bearer key", "X-Request-Id": "mine", "User-Agent": "curl"}
    deep = 100_000 * b"[" + 100_000 * b"]"
    unchangeable = [
        b'{"stream":true,"stream_options":[]}',
        b'{"stream":true,"stream_options":null,"x":' + deep + b"}",
    ]
    async with watched(tmp_path) as (b, requests):
        await b.post(b"not json", headers=client_headers)
        await b.post(json.dumps(chat(**long_numbers), indent=1).encode() + b"\n")
        await b.post(completion(**long_numbers, stream_options={USAGE: True}), "completions")
        for as_it_is in unchangeable:
            await b.post(as_it_is)
        assert len(b.records()) == 5
        # Other requests pass unrecorded.
        async with b.client.put(f"{b.tap.url}/chat/completions", data=b"x") as response:
            assert response.status == 200
        await b.post(b"y", "embeddings")
        assert len(b.records()) == 5
        (headers, body), (added_headers, added), (_, changed), *others = requests
        assert [other for _, other in others] == [*unchangeable, b"x", b"y"]
        assert {name: headers[name] for name in client_headers} == client_headers
        assert body == b"not json"
        assert added_headers["X-Request-Id"] == b.records()[1].request
        assert headers["Accept-Encoding"] == added_headers["Accept-Encoding"] == "identity"
        assert json.loads(added) == chat(**long_numbers) | OPTIONS
        assert json.loads(changed) == completion(**long_numbers) | OPTIONS


async def test_what_a_client_tells_the_ledger_ends_at_the_tap(tmp_path: Path) -> None:
    of_prompt = {
        names.PROMPT_HEADER: "HumanEval%2F12%20%C3%A9",
        names.CLASS_HEADER: "coding",
        names.DUE_HEADER: "1795344000.25",
    }
    filler = {names.BEYOND_HEADER: "1", names.DUE_HEADER: "soon"}
    tools = [{"type": "function", "function": {"name": "f"}}]
    async with watched(tmp_path) as (b, requests):
        b.tap.label("code", 2, 3, "rate-10")
        await b.post(chat(tools=tools), headers=of_prompt)
        await b.post(chat(tools=[]), headers=filler)
        first, second = b.records()
    assert not any(headers.keys() & {*of_prompt, *filler} for headers, _ in requests)
    assert (first.case, first.round, first.attempt, first.load) == ("code", 2, 3, "rate-10")
    assert (first.prompt, first.prompt_class) == ("HumanEval/12 é", "coding")
    assert (first.due, first.tools, first.shows_steps) == (1795344000.25, True, False)
    # It is in no figure, as the warm-up is in none.
    assert (second.case, second.round, second.load) == ("code", names.WARM_UP, "rate-10")
    assert (second.prompt, second.prompt_class, second.due, second.tools) == ("", "", None, False)


async def test_an_answer_that_is_no_event_stream_passes_as_it_comes(tmp_path: Path) -> None:
    lines = [b'{"n":%d}\n' % number for number in range(3)]
    paused = [part for line in lines for part in (line, 0.1)]
    answer = parts(*paused, Content_Type="application/x-ndjson")
    async with server(answer) as url, bench(url, tmp_path) as b:
        async with b.client.post(f"{b.tap.url}/chat/completions", json=chat()) as response:
            assert [read async for read in response.content.iter_any()] == lines
        assert (b.only().error or "").startswith("malformed answer: ")


@pytest.mark.parametrize(
    ("event", "error"),
    [(UNCOUNTED + answers.DONE, ""), (b"data: {not json\n\n", "malformed event: ")],
)
async def test_a_client_that_leaves_after_an_event_that_decides_has_not_cancelled(
    tmp_path: Path, event: bytes, error: str
) -> None:
    async with server(parts(event, 60.0)) as url, bench(url, tmp_path) as b:
        response = await b.client.post(f"{b.tap.url}/chat/completions", json=chat())
        assert await response.content.readany() == event
        # After the end, the line is written before the client can know of it.
        assert len(b.records()) == (not error)
        response.close()
        await eventually(lambda: len(b.records()) == 1)
        await asyncio.sleep(0.05)
        assert (b.only().error or "").startswith(error)
        assert (b.only().error is None) is (not error)


@pytest.mark.parametrize("url", ["http://127.0.0.1:9/v1", "http://a..b/v1"])
async def test_a_server_that_cannot_be_reached(tmp_path: Path, url: str) -> None:
    async with bench(url, tmp_path) as b:
        status, body = await b.post(chat())
        assert status == 502
        assert json.loads(body)["error"]["message"].startswith("tap: refused: ")
        assert b.only().status is None
        assert (b.only().error or "").startswith("refused: ")


async def test_many_requests_may_be_under_way(tmp_path: Path) -> None:
    """Where a process may have few files open unless it asks for more."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
    try:
        async with golden(1) as endpoint, bench(endpoint.url, tmp_path):
            allowed, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
            assert allowed == min(hard, 65536) > 256
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
