"""Answers that end politely and are none: failures, in the server's own words, and no reward."""

import asyncio
from typing import Any

import pytest

from spectap.analysis.summary import Finding
from tests.servers.conftest import Measure
from tests.servers.scripted import GAP, STEP, TOKENS, Answer, Exchange, chunk, serving, usage

ROLE = chunk({"role": "assistant", "content": ""}, usage=usage(0))


def streams(finish: str | None, tokens: int, **choice: Any) -> Answer:
    """Answers with a few tokens and a last event, whose choice has these fields."""

    async def answer(exchange: Exchange) -> None:
        await exchange.head()
        await exchange.events(ROLE)
        await exchange.step(tokens, usage=usage(tokens))
        last = chunk({"content": ""}, finish, usage=usage(tokens))
        last["choices"][0] |= choice
        await exchange.end(last, {"id": "c", "model": "m", "choices": [], "usage": usage(tokens)})

    return answer


async def nothing(exchange: Exchange) -> None:
    await exchange.head()
    await exchange.end()


def refuses(body: Any, status: str, *headers: str) -> Answer:
    async def answer(exchange: Exchange) -> None:
        await exchange.json(body, status, *headers)

    return answer


DISCONNECTED = {"error": {"code": 502, "message": "Provider disconnected"}}
LIMITED = {"error": {"message": "Rate limit reached, retry in 1 s", "type": "rate_limit"}}


@pytest.mark.parametrize(
    ("failing", "words"),
    [
        # vllm-project/vllm#57082
        pytest.param(streams("abort", 1), "'abort'", id="abort"),
        # OpenRouter's
        pytest.param(streams("error", 4, **DISCONNECTED), "Provider disconnected", id="choice"),
        # vllm-project/vllm#54708
        pytest.param(nothing, "no token", id="no token"),
        pytest.param(refuses(LIMITED, "200 OK"), "HTTP 200: Rate limit reached", id="200"),
        pytest.param(
            refuses(LIMITED, "429 Too Many Requests", "Retry-After: 1"),
            "HTTP 429: Rate limit reached",
            id="429",
        ),
    ],
)
def test_a_third_that_fails_is_named_and_wins_nothing(
    measure: Measure, monkeypatch: pytest.MonkeyPatch, failing: Answer, words: str
) -> None:
    """Both servers are equally fast, but ``sd`` fails each third request at once."""
    monkeypatch.setitem(STEP, "sd", 1)

    async def answer(exchange: Exchange) -> None:
        if exchange.side == "base" or exchange.number % 3:
            await exchange.good()
        else:
            await failing(exchange)

    with serving(answer) as servers:
        measured = measure(servers)
    failed = [record for record in measured.of("sd") if record.failed]
    assert failed
    assert all(words in (record.error or "") for record in failed)
    assert all(record.error is None for record in measured.of("base"))
    assert words.partition(": ")[2] or words in measured.text
    verdict = measured.verdict()
    assert verdict is None or verdict.finding is not Finding.FASTER
    assert "Keep it on" not in measured.text


def test_a_stream_that_stalls_behind_keep_alives_is_ended(measure: Measure) -> None:
    """ggml-org/llama.cpp#23994, anomalyco/opencode#43519: comments, and nothing in them."""

    async def answer(exchange: Exchange) -> None:
        # The faster side fills its load with further requests, which are in no round.
        if exchange.side == "sd" or exchange.number != 4:
            await exchange.good()
            return
        await exchange.head()
        await exchange.events(ROLE)
        for _ in range(60):
            await asyncio.sleep(0.5)
            await exchange.write(b": keepalive\n\n")

    with serving(answer) as servers:
        measured = measure(servers, "--timeout", "3")
    (stalled,) = [record for record in measured.of("base") if record.stalled]
    assert 2.9 < stalled.end < 4.5


def test_a_done_that_comes_late_is_not_waited_for(measure: Measure) -> None:
    """Gateways hold back usage and ``[DONE]`` for what they do after an answer."""

    async def answer(exchange: Exchange) -> None:
        await exchange.head()
        await exchange.events(ROLE)
        for total in range(1, TOKENS):
            await exchange.step(1, usage=usage(total))
        await asyncio.sleep(GAP)
        exchange.delivers(1)
        await exchange.events(chunk({"content": "word "}, "length", usage=usage(TOKENS)))
        await asyncio.sleep(0.06 if exchange.side == "sd" else 0)
        await exchange.end({"id": "c", "model": "m", "choices": [], "usage": usage(TOKENS)})

    with serving(answer) as servers:
        measured = measure(servers)
    comparison = measured.cell("sd").comparison
    assert comparison is not None
    assert comparison.speedup is not None
    assert comparison.speedup.point == pytest.approx(1, abs=0.05)
