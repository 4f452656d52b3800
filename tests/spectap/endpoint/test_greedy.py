"""Where greedy answers begin to differ."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from spectap.endpoint.greedy import Divergence, compare, read, write
from spectap.errors import JournalError
from tests.spectap import samples


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


def compared(**answering: Answering) -> list[Divergence]:
    async def scenario() -> list[Divergence]:
        async with AsyncExitStack() as stack:
            urls = {name: await stack.enter_async_context(one) for name, one in answering.items()}
            return await compare(samples.config(variants=samples.variants(**urls)))

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
    expected = [Divergence("SD", name, unit, length, first) for name in ("counting", "sonnets")]
    assert compared(Base=base, SD=speculative) == expected


@pytest.mark.parametrize(
    "choice",
    [{}, {"message": None}, {"message": {"content": [{"text": "in parts"}]}}, {"message": "text"}],
)
def test_an_answer_of_another_shape_is_left_out(choice: dict[str, Any]) -> None:
    assert compared(Base=said("one"), SD=Answering(**choice)) == []


def test_a_baseline_alone_is_asked_nothing() -> None:
    base = said("one")
    assert compared(Base=base) == []
    assert base.asked == []


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "divergence.json").write_text('[{"case"')
    with pytest.raises(JournalError, match=r"divergence\.json: cannot be read: .*delete it"):
        read(tmp_path)


def test_each_variant_is_compared_with_its_baseline() -> None:
    found = compared(Base=said("one two"), k3=said("one two"), k7=said("one three"))
    assert [(one.variant, one.case, one.first) for one in found] == [
        ("k3", "counting", None),
        ("k7", "counting", 2),
        ("k3", "sonnets", None),
        ("k7", "sonnets", 2),
    ]


def test_a_baseline_alone_is_compared_with_nothing() -> None:
    assert compared(Base=said("one")) == []


def test_all_are_asked_the_same_greedily() -> None:
    base, speculative = said("one"), said("one")
    compared(Base=base, SD=speculative)
    assert base.asked == speculative.asked
    assert {body["temperature"] for body in base.asked} == {0}
    assert {body["max_tokens"] for body in base.asked} == {20}
    assert len({body["messages"][0]["content"] for body in base.asked}) == 2


def test_an_endpoint_that_does_not_answer_is_left_out() -> None:
    async def scenario() -> list[Divergence]:
        async with said("one") as base, said("one") as other:
            urls = {"Base": base, "k3": "http://127.0.0.1:1/v1", "k7": other}
            return await compare(samples.config(variants=samples.variants(**urls)))

    assert {one.variant for one in asyncio.run(scenario())} == {"k7"}


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    found = (
        Divergence("SD", "counting", "token", 80, None),
        Divergence("k7", "sonnets", "word", 9, 4),
    )
    write(tmp_path, found)
    assert read(tmp_path) == found
    assert read(tmp_path / "elsewhere") == ()
