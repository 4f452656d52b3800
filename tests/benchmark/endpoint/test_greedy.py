"""Where two answers part."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from benchmark.endpoint.greedy import Divergence, compare, read, write
from tests.benchmark import samples


class Answering:
    """An endpoint that always gives the same answer."""

    def __init__(self, **choice: Any) -> None:
        self.choice = choice
        self.asked: list[dict[str, Any]] = []

    async def __aenter__(self) -> str:
        app = web.Application()
        app.add_routes([web.post("/v1/chat/completions", self._answer)])
        self._runner = web.AppRunner(app)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        return f"http://127.0.0.1:{self._runner.addresses[0][1]}/v1"

    async def __aexit__(self, *_: object) -> None:
        await self._runner.cleanup()

    async def _answer(self, request: web.Request) -> web.Response:
        self.asked.append(await request.json())
        return web.json_response({"choices": [self.choice]})


def compared(base: Answering, speculative: Answering) -> list[Divergence]:
    async def scenario() -> list[Divergence]:
        async with base as one, speculative as other:
            return await compare(samples.config(endpoints={"Base": one, "SD": other}))

    return asyncio.run(scenario())


def said(text: str, *tokens: int) -> Answering:
    return Answering(message={"content": text}, **({"token_ids": [*tokens]} if tokens else {}))


@pytest.mark.parametrize(
    ("base", "speculative", "unit", "length", "first"),
    [
        (said("", 1, 2, 3), said("", 1, 2, 3), "token", 3, None),
        (said("", 1, 2, 3), said("", 1, 9, 3), "token", 3, 2),
        (said("", 1, 2), said("", 1, 2, 3), "token", 3, 3),
        (said("one two three"), said("one two four", 5), "word", 3, 3),
        (said("one"), said("one"), "word", 1, None),
    ],
)
def test_the_first_difference(
    base: Answering, speculative: Answering, unit: str, length: int, first: int | None
) -> None:
    expected = [Divergence(name, unit, length, first) for name in ("counting", "sonnets")]
    assert compared(base, speculative) == expected


def test_both_are_asked_the_same_greedily() -> None:
    base, speculative = said("one"), said("one")
    compared(base, speculative)
    assert base.asked == speculative.asked
    assert {body["temperature"] for body in base.asked} == {0}
    assert {body["max_tokens"] for body in base.asked} == {20}
    assert len({body["messages"][0]["content"] for body in base.asked}) == 2


def test_an_endpoint_that_does_not_answer_is_left_out() -> None:
    config = samples.config(endpoints={"Base": "http://127.0.0.1:1/v1", "SD": "http://x.invalid"})
    assert asyncio.run(compare(config)) == []


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    found = (Divergence("counting", "token", 80, None), Divergence("sonnets", "word", 9, 4))
    write(tmp_path, found)
    assert read(tmp_path) == found
    assert read(tmp_path / "elsewhere") == ()
