"""A server that caches prompts beside one that does not."""

import asyncio
import json

from tests.servers.conftest import Measure
from tests.servers.scripted import TOKENS, Exchange, chunk, serving, usage


def test_no_prompt_returns_to_a_server_that_caches(measure: Measure) -> None:
    """A prefill takes 120 ms, and 10 for a prompt that was there before."""
    seen: set[str] = set()
    hits: list[str] = []

    async def answer(exchange: Exchange) -> None:
        prompt = json.dumps(exchange.fields["messages"])
        hit = exchange.side == "sd" and prompt in seen
        if exchange.side == "sd":
            seen.add(prompt)
            hits.extend([prompt] * hit)
        details = {"cached_tokens": 16 if hit else 0}
        await exchange.head()
        await asyncio.sleep(0.01 if hit else 0.12)
        for total in range(1, TOKENS + 1):
            await exchange.step(1, usage=usage(total, prompt_tokens_details=details))
        await exchange.end(chunk({}, "length", usage=usage(TOKENS, prompt_tokens_details=details)))

    with serving(answer) as servers:
        measured = measure(servers)
    assert measured.ended.status == 0, measured.text
    assert hits == []
    assert {record.cached_tokens for record in measured.records} == {0}
    assert "cache of prefixes" not in measured.text
