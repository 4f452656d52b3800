"""``measure`` judges whole requests: a server that decodes faster and queues is not the faster one.

The servers sleep for times that differ several times over, so that no busy machine turns a verdict.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from tests.benchmark.commands.processes import Benchmark, Ended, serving
from tests.benchmark.tapped import server

STEP = 0.02
TOKENS = 12
LADDER = ("--concurrency", "1,4", "--requests", "4", "--output-tokens", str(TOKENS))


def decoding(
    *,
    tokens_per_step: int = 1,
    slots: int = 100,
    fails: Callable[[int], bool] = lambda number: False,
) -> AbstractAsyncContextManager[str]:
    """A server that makes so many tokens in each step, and serves so many requests at once.

    ``fails``: whether the request of that number does, from 1.
    """
    free = asyncio.Semaphore(slots)
    numbers = iter(range(1, 10_000))

    async def answer(request: web.Request) -> web.StreamResponse:
        if request.method == "GET":
            return web.json_response({"data": [{"id": "m"}]})
        if fails(next(numbers)):
            return web.json_response({"error": {"message": "out of memory"}}, status=500)
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        async with free:
            await response.prepare(request)
            for made in range(tokens_per_step, TOKENS + 1, tokens_per_step):
                await asyncio.sleep(STEP)
                await response.write(event(tokens_per_step, made))
            await response.write(b"data: [DONE]\n\n")
        return response

    return server(answer)


def event(tokens: int, made: int) -> bytes:
    content: dict[str, Any] = {
        "choices": [{"index": 0, "delta": {"content": "word " * tokens}}],
        "usage": {"prompt_tokens": 9, "completion_tokens": made, "total_tokens": 9 + made},
    }
    return f"data: {json.dumps(content)}\n\n".encode()


@pytest.fixture
def measure(tmp_path: Path, benchmark: Benchmark) -> Callable[..., tuple[Ended, str]]:
    """Measures two servers; gives what is printed, and the report."""
    cases = tmp_path / "cases.jsonl"
    cases.write_text('{"name": "json", "line": "{}", "structure": "structured"}\n', "utf-8")

    def call(
        base: AbstractAsyncContextManager[str],
        variant: AbstractAsyncContextManager[str],
        *options: str,
    ) -> tuple[Ended, str]:
        with serving(base, variant) as (one, other):
            ended = benchmark(
                *("measure", f"Base={one}", f"SD={other}", "--cases", str(cases), *options),
                RESULTS_DIR=str(tmp_path),
                RUN_ID="run",
            )
        return ended, (tmp_path / "run" / "report.html").read_text("utf-8")

    return call


def headline(report: str) -> str:
    return report.partition("<h1>")[2].partition("</h1>")[0]


def test_one_slot_and_three_tokens_an_event(measure: Callable[..., tuple[Ended, str]]) -> None:
    slow = decoding(tokens_per_step=3, slots=1)
    ended, report = measure(decoding(), slow, *LADDER)
    print(ended.out)
    print(headline(report))
    assert 0
