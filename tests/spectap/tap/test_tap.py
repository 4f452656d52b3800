"""The tap between real clients and golden servers: nothing changes but that all is written down."""

from __future__ import annotations

import asyncio
import io
import json
import resource
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from yarl import URL

from spectap import names
from spectap.journal import Journal
from spectap.record import Record
from spectap.tap.tap import LiveLine, Traffic
from tests.spectap import samples
from tests.spectap.tapped import bench, chat, completion, eventually, golden, server

pytestmark = pytest.mark.anyio


def without_time(stream: bytes) -> bytes:
    """A stream without what differs from request to request."""
    events = []
    for part in stream.split(b"\n\n"):
        data = part.removeprefix(b"data: ")
        if data.startswith(b"{"):
            event = json.loads(data)
            data = json.dumps(event | {"created": 0, "id": ""}).encode()
        events.append(data)
    return b"\n\n".join(events)


USAGE, STATS = "include_usage", "continuous_usage_stats"


@pytest.mark.parametrize(
    ("path", "body", "own"),
    [
        ("chat/completions", chat, {}),
        ("chat/completions", chat, None),
        ("completions", completion, {}),
        ("completions", completion, {USAGE: True}),
        ("completions", completion, {USAGE: False}),
        ("chat/completions", chat, {USAGE: True, STATS: True}),
        ("chat/completions", chat, {USAGE: True, STATS: False}),
        ("chat/completions", chat, {STATS: True}),
    ],
)
async def test_a_client_gets_what_it_gets_without_the_tap(
    tmp_path: Path, path: str, body: Callable[..., dict[str, Any]], own: dict[str, Any] | None
) -> None:
    options = {} if own == {} else {"stream_options": own}
    own = own or {}
    async with golden(1, 4, 8, 2) as server, bench(server.url, tmp_path) as b:
        through = await b.post(body(**options), path)
        direct = await b.direct(body(**options), path)
        assert through[0] == direct[0] == 200
        assert without_time(through[1]) == without_time(direct[1])
        record = b.only()
        assert record.error is None
        counted = own.get(USAGE, True) and own.get(STATS, True)
        assert record.per_chunk is counted
        assert [tokens for _, tokens in record.chunks] == ([1, 4, 8, 2] if counted else [0] * 4)
        assert record.output_tokens == (15 if own.get(USAGE, True) else None)


async def test_other_requests_just_pass(tmp_path: Path) -> None:
    async def echo(request: web.Request) -> web.StreamResponse:
        body = await request.read()
        headers = {"X-Seen": request.headers.get("X-Own", ""), "Set-Cookie": "a=b"}
        return web.Response(
            status=418, body=request.raw_path.encode() + b" " + body, headers=headers
        )

    async with server(echo) as url, bench(url, tmp_path) as b:
        async with b.client.put(
            URL(f"{b.tap.url}/files/a%2Fb?q=%20x", encoded=True),
            data=b"body",
            headers={"X-Own": "kept"},
        ) as response:
            assert response.status == 418
            assert response.headers["X-Seen"] == "kept"
            assert response.headers["Set-Cookie"] == "a=b"
            assert await response.read() == b"/v1/files/a%2Fb?q=%20x body"
        async with b.client.get(f"{b.tap.url}/models") as response:
            assert response.status == 418
        assert b.records() == []


async def test_the_server_sees_the_client_s_request(tmp_path: Path) -> None:
    seen: list[tuple[Mapping[str, str], bytes]] = []

    async def watch(request: web.Request) -> web.StreamResponse:
        seen.append((request.headers, await request.read()))
        return web.json_response({})

    async with server(watch) as url, bench(url, tmp_path) as b:
        own = {"Authorization": "Bearer key", "X-Request-Id": "mine", "User-Agent": "curl"}
        await b.post(b"not json", headers=own)
        await b.post(chat(seed=2**60, temperature=0.1))
        (headers, body), (others, changed) = seen
        assert {name: headers[name] for name in own} == own
        assert body == b"not json"
        assert others["X-Request-Id"] == b.records()[1].request
        assert headers["Accept-Encoding"] == others["Accept-Encoding"] == "identity"
        wanted = chat(seed=2**60, temperature=0.1) | {
            "stream_options": {"include_usage": True, "continuous_usage_stats": True}
        }
        assert json.loads(changed) == wanted


async def test_what_a_client_tells_the_ledger_ends_at_the_tap(tmp_path: Path) -> None:
    seen: list[Mapping[str, str]] = []

    async def watch(request: web.Request) -> web.StreamResponse:
        seen.append(request.headers)
        return web.json_response({})

    told = {
        names.PROMPT_HEADER: "HumanEval%2F12%20%C3%A9",
        names.CLASS_HEADER: "coding",
        names.DUE_HEADER: "1795344000.25",
    }
    async with server(watch) as url, bench(url, tmp_path) as b:
        b.tap.label("code", 2, 3, "rate-10")
        await b.post(chat(), headers=told)
        await b.post(chat(), headers={names.DUE_HEADER: "soon"})
        first, second = b.records()
    assert not seen[0].keys() & told.keys()
    assert (first.case, first.round, first.attempt, first.load) == ("code", 2, 3, "rate-10")
    assert (first.prompt, first.prompt_class, first.due) == (
        "HumanEval/12 é",
        "coding",
        1795344000.25,
    )
    assert (second.prompt, second.prompt_class, second.due) == ("", "", None)


async def test_a_request_beyond_those_that_count_is_in_no_figure(tmp_path: Path) -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        return web.json_response({})

    async with server(answer) as url, bench(url, tmp_path) as b:
        b.tap.label("code", 2, 3, "concurrency-4")
        await b.post(chat(), headers={names.BEYOND_HEADER: "1"})
        await b.post(chat())
        beyond, counted = b.records()
    assert (beyond.round, beyond.load, counted.round) == (names.WARM_UP, "concurrency-4", 2)


async def test_a_request_that_offers_tools_is_known_by_it(tmp_path: Path) -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        return web.json_response({})

    async with server(answer) as url, bench(url, tmp_path) as b:
        for tools in ([{"type": "function", "function": {"name": "f"}}], []):
            await b.post(chat(tools=tools))
        assert [(r.tools, r.shows_steps) for r in b.records()] == [(True, False), (False, False)]


@pytest.mark.parametrize("own", [{}, {"stream_options": {"include_usage": True}}])
async def test_the_rest_of_the_request_keeps_its_numbers(
    tmp_path: Path, own: dict[str, Any]
) -> None:
    async def asked(request: web.Request) -> web.StreamResponse:
        return web.json_response(await request.json())

    body = completion(seed=12345678901234567890123, temperature=0.1, **own)
    options = {"include_usage": True, "continuous_usage_stats": True}
    async with server(asked) as url, bench(url, tmp_path) as b:
        _, answer = await b.post(json.dumps(body, indent=1).encode() + b"\n", "completions")
        assert json.loads(answer) == body | {"stream_options": options}


DEEP = 1000 * b"[" + 1000 * b"]"
OPTIONS = b'{"include_usage": true, "continuous_usage_stats": true}'


@pytest.mark.parametrize(
    ("more", "changed"),
    [
        (b'"stream_options":[]', None),
        # Python's own parser goes this deep from 3.12 on; the image has 3.10.
        (
            b'"stream_options":null,"x":' + DEEP,
            b'{"stream": true, "stream_options": ' + OPTIONS + b', "x": ' + DEEP + b"}",
        ),
    ],
)
async def test_a_request_that_cannot_be_changed_passes_as_it_is(
    tmp_path: Path, more: bytes, changed: bytes | None
) -> None:
    seen: list[bytes] = []

    async def watch(request: web.Request) -> web.StreamResponse:
        seen.append(await request.read())
        return web.json_response({})

    body = b'{"stream":true,' + more + b"}"
    async with server(watch) as url, bench(url, tmp_path) as b:
        await b.post(body)
        assert seen in ([body], [changed])
        assert len(b.records()) == 1


async def test_an_answer_that_is_no_event_stream_passes_as_it_comes(tmp_path: Path) -> None:
    async def lines(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/x-ndjson"})
        await response.prepare(request)
        for number in range(3):
            await response.write(b'{"n":%d}\n' % number)
            await asyncio.sleep(0.1)
        return response

    async with server(lines) as url, bench(url, tmp_path) as b:
        async with b.client.post(f"{b.tap.url}/chat/completions", json=chat()) as response:
            reads = [read async for read in response.content.iter_any()]
        assert reads == [b'{"n":0}\n', b'{"n":1}\n', b'{"n":2}\n']
        assert (b.only().error or "").startswith("malformed answer: ")


async def test_a_client_that_hangs_up_stops_its_request_upstream(tmp_path: Path) -> None:
    async with golden(*[1] * 200, gap=0.02) as server, bench(server.url, tmp_path) as b:
        response = await b.client.post(f"{b.tap.url}/chat/completions", json=chat())
        await response.content.readany()
        response.close()
        await eventually(lambda: bool(b.records()))
        assert b.only().error == "cancelled by the client"
        assert b.only().chunks
        await asyncio.sleep(0.1)
        sent = len(server.sent[0].chunks)
        await asyncio.sleep(0.1)
        assert len(server.sent[0].chunks) == sent < 200


async def test_a_ledger_that_cannot_be_written_does_not_stop_the_tap(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(self: Journal, record: Record) -> None:
        raise OSError(28, "No space left on device")

    async with golden(1, 4) as server, bench(server.url, tmp_path) as b:
        monkeypatch.setattr(Journal, "append", full)
        assert (await b.post(chat()))[0] == 200
        assert b.tap.failure is not None


async def test_a_server_that_is_not_there(tmp_path: Path) -> None:
    server = golden(1, 4)
    await server.start()
    port, url = server.port, server.url
    await server.stop()
    async with bench(url, tmp_path) as b:
        status, body = await b.post(chat())
        assert status == 502
        assert json.loads(body)["error"]["message"].startswith("tap: refused: ")
        assert b.only().status is None
        assert (b.only().error or "").startswith("refused: ")
        await server.start(port)
        assert (await b.post(chat()))[0] == 200
        await server.stop()


async def test_a_server_that_does_not_even_begin_to_answer(tmp_path: Path) -> None:
    async def silent(request: web.Request) -> web.StreamResponse:
        await asyncio.sleep(60)
        raise AssertionError

    async with server(silent) as url, bench(url, tmp_path, 0.2) as b:
        assert (await b.post(chat()))[0] == 504
        assert b.only().error == "stalled: nothing came for 0.2 s"


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


def test_the_live_line_counts_all_and_takes_medians_of_the_latest() -> None:
    traffic = Traffic()
    assert traffic.line(3) == (
        "0 requests, 3 in flight, 0 errors; TTFT - ms, TPOT - ms, - tokens/step"
    )
    for _ in range(100):
        traffic.note(samples.record(chunks=((9.0, 1), (9.1, 7))))
    for _ in range(100):
        traffic.note(samples.record())  # 1 + 4 + 3 tokens at 0.2, 0.3 and 0.4 s
    traffic.note(samples.record(status=500, error="HTTP 500", chunks=(), output_tokens=None))
    assert traffic.line(0) == (
        "201 requests, 0 in flight, 1 error; TTFT 200.0 ms, TPOT 28.6 ms, 3.50 tokens/step"
    )


@pytest.mark.parametrize(
    ("terminal", "printed", "every_seconds"),
    [(True, f"\r{'a' * 19}\x1b[K\rb\x1b[K\n", 1), (False, f"{'a' * 30}\nb\n", 10)],
)
def test_a_terminal_has_one_live_line_and_a_log_gets_what_has_changed(
    monkeypatch: pytest.MonkeyPatch, terminal: bool, printed: str, every_seconds: float
) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    stream = io.StringIO()
    monkeypatch.setattr(stream, "isatty", lambda: terminal)
    line = LiveLine(stream)
    for text in ("a" * 30, "b", "b"):
        line.show(text)
    line.close()
    assert (stream.getvalue(), line.every_seconds) == (printed, every_seconds)
