"""Usage that is not the tokens of the answer, and events that are no steps."""

from typing import Any

import pytest

from spectap.analysis.summary import Doubt
from spectap.metrics import INPUT_TOKENS, TIME_PER_OUTPUT_TOKEN, TOKENS_PER_STEP
from tests.servers.conftest import Measure, Measured
from tests.servers.scripted import STEP, TOKENS, Exchange, Servers, chunk, serving, steps, usage

ROLE = {"role": "assistant", "content": ""}


def last(total: int, **details: Any) -> dict[str, Any]:
    return {"id": "c", "model": "m", "choices": [], "usage": usage(total, **details)}


def near_the_truth(measured: Measured, servers: Servers, side: str) -> None:
    tpot = measured.p50(side, TIME_PER_OUTPUT_TOKEN)
    assert tpot is None or tpot == pytest.approx(servers.tpot(side), rel=0.25)


def test_answers_without_usage_are_in_no_figure_of_tokens(measure: Measure) -> None:
    """vllm-project/vllm#8625: a replica that sends none, behind a gateway."""

    async def answer(exchange: Exchange) -> None:
        if exchange.side == "base" or exchange.number % 3:
            await exchange.good()
            return
        await exchange.head()
        await exchange.events(chunk(ROLE))
        for count in steps(TOKENS, STEP["sd"]):
            await exchange.step(count)
        await exchange.end(chunk({}, "length"))

    with serving(answer) as servers:
        measured = measure(servers)
    cell = measured.cell("sd")
    assert cell.uncounted == 4
    assert "4 of 12 answers have no count of tokens" in measured.text
    ends = [record.end for record in measured.of("sd")]
    assert cell.tokens_per_second == pytest.approx(TOKENS * len(ends) / sum(ends), rel=0.25)
    near_the_truth(measured, servers, "sd")


def test_usage_of_single_steps_is_not_that_of_the_answer(measure: Measure) -> None:
    """vllm-project/vllm#9357, with a window of 3: the largest steps come early."""
    yields = {"base": [1] * 24, "sd": [1, 4, 4, 3, 3, 2, 2, 2, 1, 1, 1]}

    async def answer(exchange: Exchange) -> None:
        await exchange.head()
        await exchange.events(chunk(ROLE, usage=usage(0)))
        for count in yields[exchange.side]:
            await exchange.step(count, usage=usage(count))
        await exchange.end(chunk({}, "length"), last(24))

    with serving(answer) as servers:
        measured = measure(servers)
    for side in yields:
        assert measured.p50(side, TIME_PER_OUTPUT_TOKEN) is not None
        near_the_truth(measured, servers, side)


def test_thoughts_that_are_not_sent_are_said(measure: Measure) -> None:
    """modelscope/evalscope#1463, api7/aisix#869, SGLang without ``stream_reasoning``."""

    async def answer(exchange: Exchange) -> None:
        await exchange.head()
        await exchange.events(chunk(ROLE))
        total = 0
        for count in steps(TOKENS, STEP[exchange.side]):
            total += count
            if total > 18:
                await exchange.step(count)
            else:
                await exchange.think(count)
        details = {"completion_tokens_details": {"reasoning_tokens": 18}}
        await exchange.end(chunk({}, "stop"), last(24, **details))

    with serving(answer) as servers:
        measured = measure(servers)
    assert "18 tokens of thoughts an answer that it does not send" in measured.text
    near_the_truth(measured, servers, "sd")


def test_tokens_that_are_counted_and_not_sent_are_hinted_at(measure: Measure) -> None:
    """ikawrakow/ik_llama.cpp#2358, sgl-project/sglang#39826: the accepted block past the stop."""

    async def answer(exchange: Exchange) -> None:
        counted, step = (20, 1) if exchange.side == "base" else (24, 4)
        await exchange.head()
        await exchange.events(chunk(ROLE, usage=usage(0)))
        total = sent = 0
        for count in steps(counted, step):
            total, words = total + count, min(count, 20 - sent)
            sent += words
            await exchange.step(words, usage=usage(total))
        await exchange.end(chunk({}, "stop", usage=usage(counted)), last(counted))

    with serving(answer) as servers:
        measured = measure(servers)
    assert "sd: a counted token has 4.17 characters and base's 5.00" in measured.text


def test_prompts_of_different_lengths_are_said(measure: Measure) -> None:
    """ollama/ollama#17427, #17889: cut to the context's length, with status 200."""

    async def answer(exchange: Exchange) -> None:
        await exchange.good(prompt=16 if exchange.side == "base" else 64)

    with serving(answer) as servers:
        measured = measure(servers)
    assert [measured.p50(side, INPUT_TOKENS) for side in ("base", "sd")] == [16, 64]
    assert "sd: prompts have 64 tokens and base's 16" in measured.text


def test_an_event_that_holds_tokens_back_is_no_step(measure: Measure) -> None:
    """``--stream-interval`` of vLLM and SGLang; vllm-project/vllm#42661. Nobody speculates."""

    async def answer(exchange: Exchange) -> None:
        await exchange.head()
        await exchange.events(chunk(ROLE, usage=usage(0)))
        held = 0
        for total in range(1, TOKENS + 1):
            held += 1
            if exchange.side == "base" or total % 8 == 1 or total == TOKENS:
                await exchange.step(held, usage=usage(total))
                held = 0
            else:
                await exchange.think(0)
        await exchange.end(chunk({}, "length", usage=usage(TOKENS)), last(TOKENS))

    with serving(answer) as servers:
        measured = measure(servers)
    cell = measured.cell("sd")
    assert cell.steps
    assert cell.steps.doubt is Doubt.UNCONFIRMED
    assert cell.measure(TOKENS_PER_STEP) is None
    assert measured.cell("base").measure(TOKENS_PER_STEP) is not None
    assert "a step" not in measured.ended.out.replace("is a step", "")
    assert "sd: nothing confirms that an event of the stream is a step" in measured.text
