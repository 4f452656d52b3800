"""Waiting for endpoints."""

from __future__ import annotations

import asyncio
import re

from benchmark.endpoint import health
from rehearsal.golden.server import Golden


async def wait(endpoints: dict[str, str], seconds: float, said: list[str]) -> list[str]:
    return await health.wait(
        endpoints, patience_seconds=seconds, say=said.append, poll_seconds=0.02
    )


def test_goes_on_when_both_serve() -> None:
    async def scenario() -> None:
        async with Golden(lambda *_: []) as base, Golden(lambda *_: []) as speculative:
            said: list[str] = []
            speculative.healthy = False
            endpoints = {"Base": base.url, "SD": speculative.url}
            waiting = asyncio.create_task(wait(endpoints, 60, said))
            while not said:
                await asyncio.sleep(0.02)
            await asyncio.sleep(0.2)  # some polls more
            assert not waiting.done()
            speculative.healthy = True
            assert await waiting == []
            # Once, not at each poll.
            (line,) = said
            begin = re.escape(f"waiting for SD ({speculative.url}): HTTP 503, for ")
            assert re.fullmatch(begin + r"\d+ s of at most 60 s", line)

    asyncio.run(scenario())


def test_says_who_does_not_serve() -> None:
    async def scenario() -> None:
        async with Golden(lambda *_: []) as base:
            endpoints = {"Base": base.url, "SD": "http://127.0.0.1:9/v1"}
            problems = await wait(endpoints, 0.1, [])
            assert problems == ["SD (http://127.0.0.1:9/v1), at the last try: not reachable"]
            problems = await wait({"SD": "http://no-such-host.invalid/v1"}, 0, [])
            assert "name is not known" in problems[0]

    asyncio.run(scenario())
