"""Shapes of events that clients take: the figures are those of what was sent, and nothing fails."""

import asyncio
from typing import Any

import pytest

from spectap.metrics import TIME_PER_OUTPUT_TOKEN, TTFT
from tests.servers.conftest import Measure
from tests.servers.scripted import GAP, STEP, TOKENS, Exchange, chunk, steps, usage, whole


async def null_delta(exchange: Exchange) -> None:
    """microsoft/agent-framework#5734"""
    await exchange.begin()
    await words(exchange)
    await exchange.events(chunk(None, "length", usage=usage(TOKENS)))
    await asyncio.sleep(0.005)
    await exchange.end(whole(TOKENS))


async def no_choices(exchange: Exchange) -> None:
    """ROCm/ATOM#1711, BerriAI/litellm#34382, langchain-ai/langchain#27886"""
    await exchange.begin(counted=False)
    await words(exchange, counted=False)
    await exchange.events(chunk({}, "length"))
    await asyncio.sleep(0.002)
    await exchange.events({"id": "c", "object": "chat.completion.chunk", "usage": usage(TOKENS)})
    await asyncio.sleep(0.005)
    await exchange.end()


async def half_surrogates(exchange: Exchange) -> None:
    """A server in JavaScript cuts an emoji in two (elizaOS/eliza#30904)."""
    await exchange.begin()
    await words(exchange, "\ud83d")
    await exchange.end(chunk({"content": "\ude00"}, "length", usage=usage(TOKENS)), whole(TOKENS))


async def further_fields(exchange: Exchange) -> None:
    """LiteLLM's fields beside the role come at once, before the prefill ends."""
    fields: Any = {"provider_specific_fields": {"citations": None}, "name": "m"}
    await exchange.begin(counted=False, **fields)
    await asyncio.sleep(0.06)
    await words(exchange, counted=False)
    await exchange.end(chunk({}, "length"), whole(TOKENS))


async def words(exchange: Exchange, more: str = "", *, counted: bool = True) -> None:
    total = 0
    for count in steps(TOKENS, STEP[exchange.side]):
        await asyncio.sleep(GAP)
        total += count
        exchange.delivers(count)
        fields: dict[str, Any] = {"usage": usage(total)} if counted else {}
        await exchange.events(chunk({"content": "word " * count + more}, **fields))


@pytest.mark.parametrize(
    "answer", [Exchange.good, null_delta, no_choices, half_surrogates, further_fields]
)
def test_a_good_answer_of_any_shape_is_measured(measure: Measure, answer: Any) -> None:
    measured = measure(answer)
    for side in ("base", "sd"):
        assert {record.error for record in measured.of(side)} == {None}
        tpot = measured.p50(side, TIME_PER_OUTPUT_TOKEN)
        assert tpot == pytest.approx(measured.servers.tpot(side), rel=0.25)
        # A busy machine only adds to it.
        assert (measured.p50(side, TTFT) or 0) > 0.9 * measured.servers.ttft(side)
