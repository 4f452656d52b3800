"""The tap between real clients and golden servers: nothing changes but that all is written down."""

from __future__ import annotations

import asyncio
import gzip
import json
import statistics
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from yarl import URL

from benchmark import ledger, measures
from benchmark.ledger import Ledger, Record
from benchmark.tap import Tap
from rehearsal.golden import FAULT_HEADER, Fault, Golden
from rehearsal.schedule import Step

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Bench:
    """A tap before ``endpoint`` and a client at both, for one test."""

    def __init__(self, tap: Tap, endpoint: str, path: Path, client: aiohttp.ClientSession) -> None:
        self.tap, self.endpoint, self.path, self.client = tap, endpoint, path, client

    async def post(
        self, body: dict[str, Any] | bytes, path: str = "chat/completions", **options: Any
    ) -> tuple[int, bytes]:
        """Status and body of a request through the tap."""
        return await self._post(self.tap.url, body, path, options)

    async def direct(
        self, body: dict[str, Any], path: str = "chat/completions", **options: Any
    ) -> tuple[int, bytes]:
        """The same without the tap."""
        return await self._post(self.endpoint, body, path, options)

    async def _post(
        self, base: str, body: dict[str, Any] | bytes, path: str, options: dict[str, Any]
    ) -> tuple[int, bytes]:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        async with self.client.post(f"{base}/{path}", data=data, **options) as response:
            return response.status, await response.read()

    def records(self) -> list[Record]:
        return ledger.read(self.path)

    def only(self) -> Record:
        (record,) = self.records()
        return record


@asynccontextmanager
async def bench(endpoint: str, path: Path, stall_seconds: float = 5) -> AsyncIterator[Bench]:
    file = path / "ledger.jsonl"
    with Ledger(file) as open_ledger:
        tap = Tap(endpoint, run="r", variant="SD", ledger=open_ledger, stall_seconds=stall_seconds)
        async with tap, aiohttp.ClientSession() as client:
            tap.label("counting", 1)
            yield Bench(tap, endpoint, file, client)


def golden(*tokens: int, gap: float = 0.005) -> Golden:
    steps = [Step(gap * (index + 1), count) for index, count in enumerate(tokens)]
    return Golden(lambda prompt, number, length: steps)


def chat(**fields: Any) -> dict[str, Any]:
    messages = [{"role": "user", "content": "say it"}]
    return {"model": "Qwen/Qwen3-32B", "messages": messages, "stream": True} | fields


def completion(**fields: Any) -> dict[str, Any]:
    return {"model": "Qwen/Qwen3-32B", "prompt": "say it", "stream": True} | fields


@asynccontextmanager
async def server(handler: Handler) -> AsyncIterator[str]:
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handler)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
    finally:
        await runner.cleanup()


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


STREAM_OPTIONS = [
    {},
    {"stream_options": None},
    {"stream_options": {"include_usage": True}},
    {"stream_options": {"include_usage": False}},
    {"stream_options": {"include_usage": True, "continuous_usage_stats": True}},
    {"stream_options": {"include_usage": True, "continuous_usage_stats": False}},
    {"stream_options": {"continuous_usage_stats": True}},
]


@pytest.mark.parametrize("options", STREAM_OPTIONS)
@pytest.mark.parametrize(
    ("path", "body"), [("chat/completions", chat), ("completions", completion)]
)
def test_a_client_gets_what_it_gets_without_the_tap(
    tmp_path: Path, path: str, body: Callable[..., dict[str, Any]], options: dict[str, Any]
) -> None:
    async def scenario() -> None:
        async with golden(1, 4, 8, 2) as server, bench(server.url, tmp_path) as b:
            through = await b.post(body(**options), path)
            direct = await b.direct(body(**options), path)
            assert through[0] == direct[0] == 200
            assert without_time(through[1]) == without_time(direct[1])
            record = b.only()
            assert record.error is None
            own = options.get("stream_options") or {}
            counted = own.get("include_usage", True) and own.get("continuous_usage_stats", True)
            assert record.per_chunk is counted
            assert [tokens for _, tokens in record.chunks] == ([1, 4, 8, 2] if counted else [0] * 4)
            assert record.output_tokens == (15 if own.get("include_usage", True) else None)

    asyncio.run(scenario())


def test_a_line_says_what_the_server_s_own_record_says(tmp_path: Path) -> None:
    """Eight streams at once of 1 to 8 tokens a chunk: no token lost, times within the bars."""

    async def scenario(folder: Path) -> tuple[float, float]:
        sizes = [1, *(1 + index % 8 for index in range(39))]
        async with golden(*sizes, gap=0.02) as server, bench(server.url, folder) as b:
            await asyncio.gather(*(b.post(chat()) for _ in range(8)))
            truth = {sent.id: sent for sent in server.sent}
            errors, late = [], []
            for record in b.records():
                sent = truth[record.request]
                assert [tokens for _, tokens in record.chunks] == [t for _, t in sent.chunks]
                assert (record.prompt_tokens, record.output_tokens) == (2, sum(sizes))
                measured, ttft = measures.time_per_output_token(record), measures.ttft(record)
                assert measured is not None
                assert ttft is not None
                errors.append(abs(measured / sent.time_per_output_token - 1))
                late.append(abs(ttft - sent.ttft))
            return statistics.median(errors), statistics.median(late)

    # Whatever else the machine does only ever adds: one try in ten has to get through undisturbed.
    tries = (asyncio.run(scenario(tmp_path / str(number))) for number in range(10))
    assert any(error < 0.005 and late < 0.02 for error, late in tries)


def test_a_stream_cut_inside_events_and_characters(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with golden(8, 8, 8) as server, bench(server.url, tmp_path) as b:
            whole = await b.post(chat())
            cut = await b.post(chat(), headers={FAULT_HEADER: Fault.SPLIT.value})
            assert without_time(cut[1]) == without_time(whole[1])
            assert "🙂".encode() in cut[1]
            first, second = b.records()
            assert [t for _, t in second.chunks] == [t for _, t in first.chunks] == [8, 8, 8]
            assert second.error is None

    asyncio.run(scenario())


def test_chunks_are_passed_on_one_by_one(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with golden(1, 1, 1, gap=0.1) as server, bench(server.url, tmp_path) as b:
            async with b.client.post(f"{b.tap.url}/chat/completions", json=chat()) as response:
                times = [time.monotonic() async for _ in response.content.iter_any()]
            gaps = [later - earlier for earlier, later in pairwise(times)]
            assert sum(gap > 0.05 for gap in gaps) == 2

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("path", "body"), [("chat/completions", chat), ("completions", completion)]
)
def test_an_answer_that_is_not_streamed(
    tmp_path: Path, path: str, body: Callable[..., dict[str, Any]]
) -> None:
    async def scenario() -> None:
        async with golden(1, 4) as server, bench(server.url, tmp_path) as b:
            status, answer = await b.post(body(stream=False), path)
            assert status == 200
            assert json.loads(answer)["usage"]["completion_tokens"] == 5
            record = b.only()
            assert (record.stream, record.per_chunk, record.chunks) == (False, False, ())
            assert (record.prompt_tokens, record.output_tokens) == (2, 5)
            assert measures.output_throughput(record) == pytest.approx(5 / record.end)

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("fault", "status", "error"),
    [
        (Fault.RESET, 200, "reset: "),
        (Fault.TRUNCATED, 200, "truncated: the stream ended without [DONE]"),
        (Fault.MALFORMED, 200, 'malformed event: b\'{"choices": [{"delta"\''),
        (Fault.ERROR_EVENT, 200, "error in the stream: out of memory"),
        (Fault.STALL, 200, "stalled: nothing came for 0.3 s"),
        (Fault.TOO_MANY, 429, "HTTP 429: Too many requests"),
        (Fault.BROKEN, 500, "HTTP 500: EngineCore encountered an issue"),
        (Fault.PER_REQUEST, 200, None),
        (Fault.NO_USAGE, 200, None),
    ],
)
def test_a_bad_upstream_gives_a_line_and_leaves_the_tap_serving(
    tmp_path: Path, fault: Fault, status: int, error: str | None
) -> None:
    async def scenario() -> None:
        async with golden(1, 4, 8, 2) as server, bench(server.url, tmp_path, 0.3) as b:
            broken = fault in (Fault.RESET, Fault.STALL)
            try:
                answered, _ = await b.post(chat(), headers={FAULT_HEADER: fault.value})
                assert answered == status
                assert not broken
            except aiohttp.ClientError:
                assert broken, "a stream that ended well must not look broken"
            record = b.only()
            assert record.status == status
            assert (record.error or "").startswith(error or "")
            assert (record.error is None) is (error is None)
            assert (await b.post(chat()))[0] == 200
            assert b.records()[1].error is None

    asyncio.run(scenario())


def test_counts_per_request_only_are_said_to_be_so(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with golden(1, 4, 8) as server, bench(server.url, tmp_path) as b:
            server.fault = Fault.PER_REQUEST
            await b.post(chat())
            server.fault = Fault.NO_USAGE
            await b.post(chat())
            per_request, unknown = b.records()
            assert not per_request.per_chunk
            assert per_request.output_tokens == 13
            assert [tokens for _, tokens in per_request.chunks] == [0, 0, 0]
            assert measures.ttft(per_request) is not None
            assert unknown.output_tokens is None

    asyncio.run(scenario())


def test_headers_status_and_body_of_a_refusal_pass(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with golden(1) as server, bench(server.url, tmp_path) as b:
            server.fault = Fault.TOO_MANY
            async with b.client.post(f"{b.tap.url}/chat/completions", json=chat()) as response:
                assert response.status == 429
                assert response.headers["Retry-After"] == "1"
                assert response.content_type == "application/json"
                assert (await response.json())["error"]["message"] == "Too many requests"

    asyncio.run(scenario())


def test_a_server_that_is_not_there(tmp_path: Path) -> None:
    async def scenario() -> None:
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

    asyncio.run(scenario())


def test_a_server_that_does_not_even_begin_to_answer(tmp_path: Path) -> None:
    async def silent(request: web.Request) -> web.StreamResponse:
        await asyncio.sleep(60)
        raise AssertionError

    async def scenario() -> None:
        async with server(silent) as url, bench(url, tmp_path, 0.2) as b:
            assert (await b.post(chat()))[0] == 504
            assert b.only().error == "stalled: nothing came for 0.2 s"

    asyncio.run(scenario())


@pytest.mark.parametrize("body", [b"<html>", b""])
def test_an_answer_that_is_no_json(tmp_path: Path, body: bytes) -> None:
    async def odd(request: web.Request) -> web.StreamResponse:
        return web.Response(body=body, content_type="application/json")

    async def scenario() -> None:
        async with server(odd) as url, bench(url, tmp_path) as b:
            assert await b.post(chat()) == (200, body)
            assert (b.only().error or "").startswith("malformed answer: ")

    asyncio.run(scenario())


def test_a_client_that_hangs_up_stops_its_request_upstream(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with golden(*[1] * 200, gap=0.02) as server, bench(server.url, tmp_path) as b:
            response = await b.client.post(f"{b.tap.url}/chat/completions", json=chat())
            await response.content.readany()
            response.close()
            await _eventually(lambda: bool(b.records()))
            assert b.only().error == "cancelled by the client"
            assert b.only().chunks
            await asyncio.sleep(0.1)
            sent = len(server.sent[0].chunks)
            await asyncio.sleep(0.1)
            assert len(server.sent[0].chunks) == sent < 200

    asyncio.run(scenario())


def test_a_client_that_leaves_after_done_has_not_cancelled(tmp_path: Path) -> None:
    async def lingering(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        await response.write(b"data: [DONE]\n\n")
        await asyncio.sleep(60)
        return response

    async def scenario() -> None:
        async with server(lingering) as url, bench(url, tmp_path) as b:
            response = await b.client.post(f"{b.tap.url}/chat/completions", json=chat())
            assert await response.content.readany() == b"data: [DONE]\n\n"
            # On file by now, not when the client has gone.
            assert b.only().error is None
            response.close()
            await asyncio.sleep(0.1)
            assert b.only().error is None

    asyncio.run(scenario())


def test_other_requests_just_pass(tmp_path: Path) -> None:
    async def echo(request: web.Request) -> web.StreamResponse:
        body = await request.read()
        headers = {"X-Seen": request.headers.get("X-Own", ""), "Set-Cookie": "a=b"}
        return web.Response(
            status=418, body=request.raw_path.encode() + b" " + body, headers=headers
        )

    async def scenario() -> None:
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

    asyncio.run(scenario())


def test_the_server_sees_the_client_s_request(tmp_path: Path) -> None:
    seen: list[tuple[Mapping[str, str], bytes]] = []

    async def watch(request: web.Request) -> web.StreamResponse:
        seen.append((request.headers, await request.read()))
        return web.json_response({})

    async def scenario() -> None:
        async with server(watch) as url, bench(url, tmp_path) as b:
            own = {"Authorization": "Bearer key", "X-Request-Id": "mine", "User-Agent": "curl"}
            await b.post(b"not json", headers=own)
            await b.post(chat(seed=2**60, temperature=0.1))
            (headers, body), (others, changed) = seen
            assert {name: headers[name] for name in own} == own
            assert body == b"not json"
            assert others["X-Request-Id"] == b.records()[1].request
            wanted = chat(seed=2**60, temperature=0.1) | {
                "stream_options": {"include_usage": True, "continuous_usage_stats": True}
            }
            assert json.loads(changed) == wanted

    asyncio.run(scenario())


def test_an_answer_is_compressed_only_for_a_client_that_asks(tmp_path: Path) -> None:
    async def asked(request: web.Request) -> web.StreamResponse:
        return web.json_response({"encoding": request.headers.get("Accept-Encoding")})

    async def scenario() -> None:
        async with server(asked) as url, bench(url, tmp_path) as b:
            for encoding in (None, "gzip"):
                options: dict[str, Any] = {"skip_auto_headers": ["Accept-Encoding"]}
                if encoding is not None:
                    options = {"headers": {"Accept-Encoding": encoding}}
                async with b.client.get(f"{b.tap.url}/models", **options) as response:
                    assert await response.json() == {"encoding": encoding}

    asyncio.run(scenario())


@pytest.mark.parametrize("path", ["completions", "embeddings"])
def test_a_compressed_request_passes_as_it_is(tmp_path: Path, path: str) -> None:
    async def asked(request: web.Request) -> web.StreamResponse:
        return web.json_response(await request.json())  # aiohttp decompresses it

    async def scenario() -> None:
        body = completion(stream=False)
        packed = gzip.compress(json.dumps(body).encode())
        async with server(asked) as url, bench(url, tmp_path) as b:
            status, answer = await b.post(packed, path, headers={"Content-Encoding": "gzip"})
            assert (status, json.loads(answer)) == (200, body)

    asyncio.run(scenario())


@pytest.mark.parametrize("own", [{}, {"stream_options": {"include_usage": True}}])
def test_the_rest_of_the_request_keeps_its_numbers(tmp_path: Path, own: dict[str, Any]) -> None:
    async def asked(request: web.Request) -> web.StreamResponse:
        return web.json_response(await request.json())

    async def scenario() -> None:
        body = completion(seed=12345678901234567890123, temperature=0.1, **own)
        options = {"include_usage": True, "continuous_usage_stats": True}
        async with server(asked) as url, bench(url, tmp_path) as b:
            _, answer = await b.post(json.dumps(body, indent=1).encode() + b"\n", "completions")
            assert json.loads(answer) == body | {"stream_options": options}

    asyncio.run(scenario())


def test_an_answer_that_is_no_event_stream_passes_as_it_comes(tmp_path: Path) -> None:
    async def lines(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/x-ndjson"})
        await response.prepare(request)
        for number in range(3):
            await response.write(b'{"n":%d}\n' % number)
            await asyncio.sleep(0.1)
        return response

    async def scenario() -> None:
        async with server(lines) as url, bench(url, tmp_path) as b:
            async with b.client.post(f"{b.tap.url}/chat/completions", json=chat()) as response:
                reads = [read async for read in response.content.iter_any()]
            assert reads == [b'{"n":0}\n', b'{"n":1}\n', b'{"n":2}\n']
            assert (b.only().error or "").startswith("malformed answer: ")

    asyncio.run(scenario())


def test_what_made_the_client_hang_up_is_the_error(tmp_path: Path) -> None:
    async def broken(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        await response.write(b"data: {not json\n\n")
        await asyncio.sleep(60)
        return response

    async def scenario() -> None:
        async with server(broken) as url, bench(url, tmp_path) as b:
            async with b.client.post(f"{b.tap.url}/chat/completions", json=chat()) as response:
                await response.content.readany()
            await _eventually(lambda: len(b.records()) == 1)
            assert (b.only().error or "").startswith("malformed event")

    asyncio.run(scenario())


def test_a_line_has_the_labels_of_the_moment_its_request_came(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with golden(1, 1, gap=0.1) as server, bench(server.url, tmp_path) as b:
            running = asyncio.create_task(b.post(chat()))
            await asyncio.sleep(0.05)
            b.tap.label("sonnets", 2)
            await running
            await b.post(chat())
            labels = [(record.case, record.round) for record in b.records()]
            assert labels == [("counting", 1), ("sonnets", 2)]
            assert len({record.request for record in b.records()}) == 2

    asyncio.run(scenario())


def test_a_ledger_that_cannot_be_written_does_not_stop_the_tap(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(self: Ledger, record: Record) -> None:
        raise OSError(28, "No space left on device")

    async def scenario() -> None:
        async with golden(1, 4) as server, bench(server.url, tmp_path) as b:
            monkeypatch.setattr(Ledger, "record", full)
            assert (await b.post(chat()))[0] == 200
            assert b.tap.failure is not None

    asyncio.run(scenario())


async def _eventually(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(5):
        while not condition():
            await asyncio.sleep(0.01)
