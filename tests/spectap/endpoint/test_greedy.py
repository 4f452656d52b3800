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
from tests.spectap.tapped import server


class Answering:
    """An endpoint that always gives the same answer."""

    def __init__(self, **choice: Any) -> None:
        self.choice = choice
        self.asked: list[dict[str, Any]] = []

    async def answer(self, request: web.Request) -> web.Response:
        self.asked.append(await request.json())
        return web.json_response({"choices": [self.choice]})


def compared(**answering: Answering | None) -> list[Divergence]:
    """Divergences of these variants; None is one that is down."""

    async def scenario() -> list[Divergence]:
        async with AsyncExitStack() as stack:
            urls = {
                name: await stack.enter_async_context(server(each.answer))
                if each
                else "http://127.0.0.1:1/v1"
                for name, each in answering.items()
            }
            return await compare(samples.config(variants=samples.variants(**urls)))

    return asyncio.run(scenario())


def reply(text: str) -> Answering:
    return Answering(message={"content": text})


@pytest.mark.parametrize(
    ("base", "speculative", "length", "first"),
    [
        ("one two three", "one two three", 3, None),
        ("one two three", "one 2 three", 3, 2),
        ("one two", "one two three", 3, 3),
        ("one two", "one", 2, 2),
        ("", "", 0, None),
    ],
)
def test_the_first_difference(base: str, speculative: str, length: int, first: int | None) -> None:
    expected = [Divergence("SD", name, "word", length, first) for name in ("counting", "sonnets")]
    assert compared(Base=reply(base), SD=reply(speculative)) == expected


@pytest.mark.parametrize(
    "choice",
    [{}, {"message": None}, {"message": {"content": [{"text": "in parts"}]}}, {"message": "text"}],
)
def test_an_answer_of_another_shape_is_left_out(choice: dict[str, Any]) -> None:
    assert compared(Base=reply("one"), SD=Answering(**choice)) == []


def test_a_baseline_alone_is_asked_nothing() -> None:
    base = reply("one")
    assert compared(Base=base) == []
    assert base.asked == []


def test_each_variant_gets_the_same_and_is_compared_with_its_baseline() -> None:
    base, k7 = reply("one two"), reply("one three")
    divergences = compared(Base=base, k3=reply("one two"), k5=None, k7=k7)
    assert [(each.variant, each.case, each.first) for each in divergences] == [
        ("k3", "counting", None),
        ("k7", "counting", 2),
        ("k3", "sonnets", None),
        ("k7", "sonnets", 2),
    ]
    assert base.asked == k7.asked
    assert {(body["temperature"], body["max_tokens"]) for body in base.asked} == {(0, 20)}
    assert len({body["messages"][0]["content"] for body in base.asked}) == 2


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    divergences = (
        Divergence("SD", "counting", "token", 80, None),
        Divergence("k7", "sonnets", "word", 9, 4),
    )
    write(tmp_path, divergences)
    assert read(tmp_path) == divergences
    assert read(tmp_path / "elsewhere") == ()
    (tmp_path / "divergence.json").write_text('[{"case"')
    with pytest.raises(JournalError, match=r"divergence\.json: cannot be read: .*delete it"):
        read(tmp_path)
