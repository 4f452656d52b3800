"""What the ledger says of a completion, however it went."""

from __future__ import annotations

import asyncio
import json
import statistics
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web

from rehearsal.golden.faults import FAULT_HEADER, Fault
from spectap import metrics
from tests.spectap.tapped import bench, chat, completion, eventually, golden, server

pytestmark = pytest.mark.anyio


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
                measured, ttft = metrics.time_per_output_token(record), metrics.ttft(record)
                assert measured is not None
                assert ttft is not None
                errors.append(abs(measured / sent.time_per_output_token - 1))
                late.append(abs(ttft - sent.ttft))
            return statistics.median(errors), statistics.median(late)

    # Whatever else the machine does only ever adds: one try in ten has to get through undisturbed.
    tries = (asyncio.run(scenario(tmp_path / str(number))) for number in range(10))
    assert any(error < 0.005 and late < 0.02 for error, late in tries)


async def test_an_answer_that_is_not_streamed(tmp_path: Path) -> None:
    async with golden(1, 4) as server, bench(server.url, tmp_path) as b:
        status, answer = await b.post(completion(stream=False), "completions")
        assert status == 200
        assert json.loads(answer)["usage"]["completion_tokens"] == 5
        record = b.only()
        assert (record.stream, record.per_chunk, record.chunks) == (False, False, ())
        assert (record.prompt_tokens, record.output_tokens) == (2, 5)
        assert metrics.output_throughput(record) == pytest.approx(5 / record.end)


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
async def test_a_bad_upstream_gives_a_line_and_leaves_the_tap_serving(
    tmp_path: Path, fault: Fault, status: int, error: str | None
) -> None:
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


async def test_a_client_that_leaves_after_done_has_not_cancelled(tmp_path: Path) -> None:
    async def lingering(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        await response.write(b"data: [DONE]\n\n")
        await asyncio.sleep(60)
        return response

    async with server(lingering) as url, bench(url, tmp_path) as b:
        response = await b.client.post(f"{b.tap.url}/chat/completions", json=chat())
        assert await response.content.readany() == b"data: [DONE]\n\n"
        # On file by now, not when the client has gone.
        assert b.only().error is None
        response.close()
        await asyncio.sleep(0.1)
        assert b.only().error is None


async def test_what_made_the_client_hang_up_is_the_error(tmp_path: Path) -> None:
    async def broken(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        await response.write(b"data: {not json\n\n")
        await asyncio.sleep(60)
        return response

    async with server(broken) as url, bench(url, tmp_path) as b:
        async with b.client.post(f"{b.tap.url}/chat/completions", json=chat()) as response:
            await response.content.readany()
        await eventually(lambda: len(b.records()) == 1)
        assert (b.only().error or "").startswith("malformed event")


async def test_a_line_has_the_labels_of_the_moment_its_request_came(tmp_path: Path) -> None:
    async with golden(1, 1, gap=0.1) as server, bench(server.url, tmp_path) as b:
        running = asyncio.create_task(b.post(chat()))
        await asyncio.sleep(0.05)
        b.tap.label("sonnets", 2)
        await running
        await b.post(chat())
        labels = [(record.case, record.round) for record in b.records()]
        assert labels == [("counting", 1), ("sonnets", 2)]
        assert len({record.request for record in b.records()}) == 2
