"""The server's own counters: read as vLLM writes them, and never guessed."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from benchmark.counters import COUNTERS, Count, Counters, parse, read, scrape
from benchmark.ledger import Journal
from rehearsal.golden import Golden
from rehearsal.schedule import Step

# As vLLM 0.32 writes it, with what matters here.
PAGE = """\
# HELP vllm:generation_tokens_total Number of generation tokens processed.
# TYPE vllm:generation_tokens_total counter
vllm:generation_tokens_total{engine="0",model_name="m"} 120.0
# HELP vllm:spec_decode_num_drafts_total Number of spec decoding drafts.
# TYPE vllm:spec_decode_num_drafts_total counter
vllm:spec_decode_num_drafts_total{engine="0",model_name="m"} 16.0
# HELP vllm:spec_decode_num_drafts_created Number of spec decoding drafts.
# TYPE vllm:spec_decode_num_drafts_created gauge
vllm:spec_decode_num_drafts_created{engine="0",model_name="m"} 1.7952833873594384e+09
# HELP vllm:spec_decode_num_draft_tokens_total Number of draft tokens.
# TYPE vllm:spec_decode_num_draft_tokens_total counter
vllm:spec_decode_num_draft_tokens_total{engine="0",model_name="m"} 112.0
# HELP vllm:spec_decode_num_accepted_tokens_total Number of accepted tokens.
# TYPE vllm:spec_decode_num_accepted_tokens_total counter
vllm:spec_decode_num_accepted_tokens_total{engine="0",model_name="m"} 19.0
# HELP vllm:spec_decode_num_accepted_tokens_per_pos_total Accepted tokens per draft position.
# TYPE vllm:spec_decode_num_accepted_tokens_per_pos_total counter
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",model_name="m",position="0"} 12.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",model_name="m",position="1"} 7.0
# HELP vllm:request_time_per_output_token_seconds Histogram of time per output token.
# TYPE vllm:request_time_per_output_token_seconds histogram
vllm:request_time_per_output_token_seconds_bucket{engine="0",le="+Inf",model_name="m"} 2.0
vllm:request_time_per_output_token_seconds_count{engine="0",model_name="m"} 2.0
vllm:request_time_per_output_token_seconds_sum{engine="0",model_name="m"} 0.032
"""


def test_a_page_of_vllm() -> None:
    assert parse(PAGE) == Counters(120, 16, 112, 19, (12, 7), 0.032, 2)


def test_engines_are_added_up() -> None:
    second = PAGE.replace('engine="0"', 'engine="1"')
    samples = [line for line in second.splitlines() if not line.startswith("#")]
    both = parse(PAGE + "\n".join(samples) + "\n")
    assert both is not None
    assert (both.generation_tokens, both.per_position) == (240, (24, 14))


@pytest.mark.parametrize("page", ["", "not metrics {", "process_cpu_seconds_total 3\n"])
def test_a_page_of_something_else(page: str) -> None:
    assert parse(page) is None


def test_what_was_counted_between() -> None:
    later = Counters(150, 20, 140, 24, (15, 9), 0.75, 3)
    earlier = Counters(120, 16, 112, 19, (12, 7), 0.25, 2)
    assert later.since(earlier) == Counters(30, 4, 28, 5, (3, 2), 0.5, 1)
    assert later.since(Counters(0, 0, 0, 0, (), 0, 0)) == later


def test_a_server_that_counts_and_one_that_does_not() -> None:
    async def scenario() -> None:
        async with Golden(lambda prompt, number, length: [Step(0, 1)]) as golden:
            found = await scrape(golden.url)
            url = golden.url
        assert found is not None
        assert found.generation_tokens == 0
        assert await scrape(url) is None

    asyncio.run(scenario())


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    count = Count("counting", 1, "SD", ("a", "b"), Counters(9, 1, 7, 2, (1, 1), 0.5, 2))
    with Journal(tmp_path / COUNTERS) as journal:
        journal.append(count)
    with (tmp_path / COUNTERS).open("a") as file:
        file.write('{"case": "torn')
    assert read(tmp_path / COUNTERS) == (count,)
    assert read(tmp_path / "nothing") == ()


def test_a_file_of_something_else_is_one_line(tmp_path: Path) -> None:
    (tmp_path / COUNTERS).write_text("{}\n")
    with pytest.raises(ValueError, match="a line is not a count") as refusal:
        read(tmp_path / COUNTERS)
    assert "\n" not in str(refusal.value)
