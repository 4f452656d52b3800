"""``measure`` judges whole requests: a server that decodes faster and queues is not the faster one.

The servers sleep for times that differ several times over, so that no busy machine turns a verdict.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from tests.spectap.commands.processes import Benchmark, Ended, serving
from tests.spectap.tapped import server

STEP = 0.02
TOKENS = 12
OPTIONS = ("--requests", "8", "--rounds", "4", "--output-tokens", str(TOKENS))


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
    """The heading and the lines below it."""
    return report.partition("<h1>")[2].partition("</header>")[0]


def test_requests_take_longer_where_they_queue_though_decoding_is_faster(
    measure: Callable[..., tuple[Ended, str]], benchmark: Benchmark, tmp_path: Path
) -> None:
    slow = decoding(tokens_per_step=3, slots=1)
    ended, report = measure(decoding(), slow, "--concurrency", "1,12", *OPTIONS)
    assert ended.status == 0, ended.err
    found = re.search(
        r"SD answers requests faster up to 1 at once and slower from 12; "
        r"SD requests queue from 12 at once</h1>",
        report,
    )
    assert found, headline(report)
    longer = re.compile(
        r"SD requests take \d\.\d+x as long, though SD decodes \d\.\d+x as fast from 12"
    )
    assert longer.search(headline(report))
    said = " ".join(ended.out.split())
    assert "SD answers requests faster than Base up to 1 request at once, and slower" in said
    assert "SD requests queue from 12 at once." in said
    assert longer.search(said)
    # No window but one was measured.
    assert "Advice: Measure SD with another window than 3" in said
    advised = " ".join(benchmark("advise", str(tmp_path / "run")).out.split())
    assert longer.search(advised)
    assert "SD requests queue from 12 at once. Next: Measure SD with another" in advised
    for text in (said, advised):
        assert "Serve" not in text
        assert "Fastest for" not in text


def test_a_plain_faster_server_is_faster_at_every_load(
    measure: Callable[..., tuple[Ended, str]],
) -> None:
    fast = decoding(tokens_per_step=3)
    ended, report = measure(decoding(), fast, "--concurrency", "1,4", *OPTIONS)
    assert ended.status == 0, ended.err
    assert "<h1>SD answers requests faster at every load</h1>" in report
    assert "queue" not in headline(report)
    assert "at every load, up to 4 requests at once: no crossover." in " ".join(ended.out.split())


def test_failures_reach_the_headline_the_verdict_and_the_advice(
    measure: Callable[..., tuple[Ended, str]],
) -> None:
    """Every third request fails."""
    some = decoding(tokens_per_step=3, fails=lambda number: number % 3 == 0)
    ended, report = measure(decoding(), some, "--concurrency", "4", *OPTIONS)
    assert ended.status == 1
    (errors,) = re.findall(r"(\d+) of 32 SD requests failed", headline(report))
    assert 0 < int(errors) < 16
    assert "SD: requests faster" in headline(report)
    said = " ".join(ended.out.split())
    # The failures come at any place, so the cost may be undecided: then it begins a sentence.
    advice = f"look into its errors before you keep it on. {errors} of 32 SD requests failed."
    assert advice in said.replace("Look into", "look into")


def test_no_advice_from_what_has_no_verdict(
    measure: Callable[..., tuple[Ended, str]], benchmark: Benchmark, tmp_path: Path
) -> None:
    most = decoding(tokens_per_step=3, fails=lambda number: number % 3 > 0)
    ended, report = measure(decoding(), most, "--concurrency", "4", *OPTIONS)
    assert ended.status == 1
    assert "SD has no verdict in 1 of 1 test case" in headline(report)
    assert "Advice" not in ended.out
    assert 'id="advice"' not in report
    advised = benchmark("advise", str(tmp_path / "run"))
    assert (advised.status, advised.out) == (2, "")
    assert "no variant that speculates has a verdict" in advised.err
