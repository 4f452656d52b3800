"""Usage that is not the tokens of the answer, and events that are no steps."""

import pytest

from spectap.analysis.summary import Doubt
from spectap.metrics import INPUT_TOKENS, TIME_PER_OUTPUT_TOKEN, TOKENS_PER_STEP
from tests.servers.conftest import Measure, Measured
from tests.servers.scripted import STEP, TOKENS, Answer, Exchange, chunk, on_sd, steps, usage, whole


def near_the_truth(measured: Measured, side: str) -> None:
    tpot = measured.p50(side, TIME_PER_OUTPUT_TOKEN)
    assert tpot is None or tpot == pytest.approx(measured.servers.tpot(side), rel=0.25)


def test_answers_without_usage_are_in_no_figure_of_tokens(measure: Measure) -> None:
    """vllm-project/vllm#8625: a replica that sends none, behind a gateway."""

    async def without(exchange: Exchange) -> None:
        await exchange.begin(counted=False)
        for count in steps(TOKENS, STEP["sd"]):
            await exchange.step(count)
        await exchange.end(chunk({}, "length"))

    measured = measure(on_sd(without, every=3))
    cell = measured.cell("sd")
    assert cell.uncounted == 4
    assert "4 of 12 answers have no count of tokens" in measured.text
    ends = [record.end for record in measured.of("sd")]
    assert cell.tokens_per_second == pytest.approx(TOKENS * len(ends) / sum(ends), rel=0.25)
    near_the_truth(measured, "sd")


async def hidden_thoughts(exchange: Exchange) -> None:
    """modelscope/evalscope#1463, api7/aisix#869, SGLang without ``stream_reasoning``."""
    await exchange.begin(counted=False)
    total = 0
    for count in steps(TOKENS, STEP[exchange.side]):
        total += count
        await (exchange.step if total > 18 else exchange.think)(count)
    thoughts = {"reasoning_tokens": 18}
    await exchange.end(chunk({}, "stop"), whole(24, completion_tokens_details=thoughts))


async def past_the_stop(exchange: Exchange) -> None:
    """ikawrakow/ik_llama.cpp#2358, sgl-project/sglang#39826: the accepted block is counted."""
    counted, step = (20, 1) if exchange.side == "base" else (24, 4)
    await exchange.begin()
    total = sent = 0
    for count in steps(counted, step):
        total, words = total + count, min(count, 20 - sent)
        sent += words
        await exchange.step(words, usage=usage(total))
    await exchange.end(chunk({}, "stop", usage=usage(counted)), whole(counted))


async def cut_prompts(exchange: Exchange) -> None:
    """ollama/ollama#17427, #17889: to the context's length, with status 200."""
    await exchange.good(prompt=16 if exchange.side == "base" else 64)


@pytest.mark.parametrize(
    ("answer", "said", "prompts"),
    [
        (hidden_thoughts, "18 tokens of thoughts an answer that it does not send", [20, 20]),
        (past_the_stop, "sd: a counted token has 4.17 characters and base's 5.00", [20, 20]),
        (cut_prompts, "sd: prompts have 64 tokens and base's 16", [16, 64]),
    ],
)
def test_what_usage_shows_of_a_server_is_said(
    measure: Measure, answer: Answer, said: str, prompts: list[int]
) -> None:
    measured = measure(answer)
    assert said in measured.text
    assert [measured.p50(side, INPUT_TOKENS) for side in ("base", "sd")] == prompts
    if answer is hidden_thoughts:
        near_the_truth(measured, "sd")


def test_an_event_that_holds_tokens_back_is_no_step(measure: Measure) -> None:
    """``--stream-interval`` of vLLM and SGLang; vllm-project/vllm#42661. Nobody speculates."""

    async def holds_back(exchange: Exchange) -> None:
        await exchange.begin()
        held = 0
        for total in range(1, TOKENS + 1):
            held += 1
            if exchange.side == "base" or total % 8 == 1 or total == TOKENS:
                await exchange.step(held, usage=usage(total))
                held = 0
            else:
                await exchange.think(0)
        await exchange.end(chunk({}, "length", usage=usage(TOKENS)), whole(TOKENS))

    measured = measure(holds_back)
    cell = measured.cell("sd")
    assert cell.steps
    assert cell.steps.doubt is Doubt.UNCONFIRMED
    assert cell.measure(TOKENS_PER_STEP) is None
    assert measured.cell("base").measure(TOKENS_PER_STEP) is not None
    assert "a step" not in measured.ended.out.replace("is a step", "")
    assert "sd: nothing confirms that an event of the stream is a step" in measured.text
