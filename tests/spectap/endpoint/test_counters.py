"""The server's own counters: read as vLLM writes them, and never guessed."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from aiohttp import web

from rehearsal.golden.schedule import Step
from rehearsal.golden.server import Golden
from spectap.endpoint import counters
from spectap.endpoint.counters import COUNTERS, Count, Counters, read, scrape, scrape_all
from spectap.errors import JournalError
from spectap.journal import Journal
from tests.spectap.tapped import server

# As vLLM 0.32 writes it, with what matters here.
PAGE = """\
# TYPE vllm:generation_tokens_total counter
vllm:generation_tokens_total{engine="0",model_name="m"} 120.0
# TYPE vllm:spec_decode_num_drafts_total counter
vllm:spec_decode_num_drafts_total{engine="0",model_name="m"} 16.0
# TYPE vllm:spec_decode_num_drafts_created gauge
vllm:spec_decode_num_drafts_created{engine="0",model_name="m"} 1.7952833873594384e+09
# TYPE vllm:spec_decode_num_draft_tokens_total counter
vllm:spec_decode_num_draft_tokens_total{engine="0",model_name="m"} 112.0
# TYPE vllm:spec_decode_num_accepted_tokens_total counter
vllm:spec_decode_num_accepted_tokens_total{engine="0",model_name="m"} 19.0
# TYPE vllm:spec_decode_num_accepted_tokens_per_pos_total counter
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",model_name="m",position="0"} 12.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",model_name="m",position="1"} 7.0
# TYPE vllm:request_time_per_output_token_seconds histogram
vllm:request_time_per_output_token_seconds_bucket{engine="0",le="+Inf",model_name="m"} 2.0
vllm:request_time_per_output_token_seconds_count{engine="0",model_name="m"} 2.0
vllm:request_time_per_output_token_seconds_sum{engine="0",model_name="m"} 0.032
# TYPE vllm:request_generation_tokens histogram
vllm:request_generation_tokens_bucket{engine="0",le="+Inf",model_name="m"} 2.0
vllm:request_generation_tokens_count{engine="0",model_name="m"} 2.0
vllm:request_generation_tokens_sum{engine="0",model_name="m"} 120.0
# TYPE vllm:inter_token_latency_seconds histogram
vllm:inter_token_latency_seconds_bucket{engine="0",le="+Inf",model_name="m"} 17.0
vllm:inter_token_latency_seconds_count{engine="0",model_name="m"} 17.0
vllm:inter_token_latency_seconds_sum{engine="0",model_name="m"} 1.9
"""

# V0 of 0.9.1 after the same answers: 2 prefills and 17 steps.
PAGE_OF_V0 = """\
# TYPE vllm:generation_tokens_total counter
vllm:generation_tokens_total{model_name="m"} 19.0
# TYPE vllm:time_per_output_token_seconds histogram
vllm:time_per_output_token_seconds_bucket{le="+Inf",model_name="m"} 17.0
vllm:time_per_output_token_seconds_count{model_name="m"} 17.0
vllm:time_per_output_token_seconds_sum{model_name="m"} 1.9
# TYPE vllm:request_generation_tokens histogram
vllm:request_generation_tokens_bucket{le="+Inf",model_name="m"} 2.0
vllm:request_generation_tokens_count{model_name="m"} 2.0
vllm:request_generation_tokens_sum{model_name="m"} 120.0
"""


def parse(page: str) -> Counters | None:
    parsed = counters.parse(page)
    return None if parsed is None else parsed.counters


OF_VLLM = Counters(120, 16, 112, 19, (12, 7), 0.032, 2, 120, 2, 17)
LINES = PAGE.splitlines(keepends=True)
OLD_NAME = "".join(
    line.replace("inter_token_latency", "time_per_output_token")
    for line in LINES
    if "vllm:inter_token" in line
)
SECOND_ENGINE = "".join(
    line.replace('engine="0"', 'engine="1"') for line in LINES if not line.startswith("#")
)


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        (PAGE, OF_VLLM),
        (PAGE_OF_V0, Counters(19, 0, 0, 0, (), 0, 0, 120, 2, 17)),
        # 0.11 exports one series under two names.
        (PAGE + OLD_NAME, OF_VLLM),
        (PAGE + SECOND_ENGINE, Counters(240, 32, 224, 38, (24, 14), 0.064, 4, 240, 4, 34)),
        ("not metrics {", None),
        ("process_cpu_seconds_total 3\n", None),
    ],
)
def test_a_page(page: str, expected: Counters | None) -> None:
    assert parse(page) == expected


def test_what_was_counted_between() -> None:
    later = Counters(150, 20, 140, 24, (15, 9), 0.75, 3, 149, 5, 21)
    earlier = Counters(120, 16, 112, 19, (12, 7), 0.25, 2, 120, 3, 17)
    assert later.since(earlier) == Counters(30, 4, 28, 5, (3, 2), 0.5, 1, 29, 2, 4)
    # V0 begins to show a histogram with its first value.
    assert later.since(Counters(0, 0, 0, 0, (), 0, 0)) == later
    assert later.tokens == 149
    unknown = replace(later, finished_tokens=None, gaps=None)
    assert unknown.tokens == 150
    assert unknown.since(unknown) == Counters(0, 0, 0, 0, (0, 0), 0, 0)


@pytest.mark.anyio
async def test_a_server_that_counts_and_one_that_does_not() -> None:
    async with Golden(lambda prompt, number, length: [Step(0, 1)]) as golden:
        url = golden.url
        by_variant = await scrape_all({"SD": url, "Base": "http://127.0.0.1:1/v1"})
    assert list(by_variant) == ["SD"]
    assert by_variant["SD"].generation_tokens == 0
    assert await scrape(url) is None


def scraped(pages: Sequence[str]) -> Counters | None:
    """What ``scrape`` takes of a server that shows one page after the other, the last for ever."""
    remaining = iter(pages)
    last = pages[-1]

    async def metrics(request: web.Request) -> web.Response:
        return web.Response(text=next(remaining, last))

    async def scenario() -> Counters | None:
        async with server(metrics) as url:
            return await scrape(url, poll_seconds=0.001)

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
        pytest.param([of(7, 0, 1)] * 4, id="a step that takes long"),
        pytest.param([of(8, 0, 0)], id="a page written while the last step was counted"),
        pytest.param([of(5, 0, 1), of(6, 0, 1), of(8, 0, 0)], id="answers still coming"),
    ],
)
def test_counters_are_taken_when_every_answer_has_ended(pages: list[str]) -> None:
    assert scraped([*pages, of(8, 8, 0)]) == parse(of(8, 8, 0))
    # A server that seems never to rest is taken as it is.
    assert scraped([of(8, 8, 1)]) == parse(of(8, 8, 1))


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    count = Count("counting", 1, "SD", ("a", "b"), Counters(9, 1, 7, 2, (1, 1), 0.5, 2, 9, 2, 1))
    unknown = replace(count, counters=Counters(9, 1, 7, 2, (1, 1), 0.5, 2))
    with Journal(tmp_path / COUNTERS) as journal:
        journal.append(count)
        journal.append(unknown)
    with (tmp_path / COUNTERS).open("a") as file:
        file.write('{"case": "torn')
    assert read(tmp_path / COUNTERS) == (count, unknown)
    assert read(tmp_path / "nothing") == ()
    (tmp_path / COUNTERS).write_text("{}\n")
    with pytest.raises(JournalError, match=r"counters\.jsonl:1: case: Field required"):
        read(tmp_path / COUNTERS)
