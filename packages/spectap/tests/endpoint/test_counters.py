"""A server's own counters: what a page says, and what lies between two."""

import re
from collections.abc import Sequence
from dataclasses import replace

import pytest
from aiohttp import web

from spectap.endpoint import counters
from spectap.endpoint.counters import Counters, Obstacle, Page, scrape
from tests.tapped import server

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


async def scraped(pages: Sequence[str]) -> Page | None:
    """What ``scrape`` takes of a server that shows one page after the other, the last for ever."""
    remaining = iter(pages)

    async def metrics(request: web.Request) -> web.Response:
        return web.Response(text=next(remaining, pages[-1]))

    async with server(metrics) as url:
        return await scrape(url)


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
@pytest.mark.anyio
async def test_counters_are_taken_when_every_answer_has_ended(pages: list[str]) -> None:
    assert await scraped([*pages, of(8, 8, 0)]) == counters.parse(of(8, 8, 0))
    # A server that seems never to rest is taken as it is.
    assert await scraped([of(8, 8, 1)]) == counters.parse(of(8, 8, 1))


@pytest.mark.anyio
async def test_two_servers_that_take_turns_at_one_url_are_noticed() -> None:
    page = await scraped([of(96, 96, 0), of(8, 8, 0)] * 20)
    assert page
    assert page.obstacle is Obstacle.FELL
