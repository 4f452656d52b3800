"""Where greedy answers begin to differ."""

from collections.abc import Mapping
from contextlib import AsyncExitStack
from types import MappingProxyType
from typing import Any

import pytest
from aiohttp import web

from spectap.endpoint.greedy import Divergence, compare
from tests import samples
from tests.tapped import server

pytestmark = pytest.mark.anyio


class Answering:
    """An endpoint that always gives the same answer, by default this text.

    It may be ``strict``, and refuse what OpenAI's API does not have.
    """

    def __init__(self, text: str = "", *, strict: bool = False, **choice: Any) -> None:
        self.choice = choice or {"message": {"content": text}}
        self.strict = strict
        self.asked: list[dict[str, Any]] = []

    async def answer(self, request: web.Request) -> web.Response:
        self.asked.append(await request.json())
        refuses = self.strict and {"return_token_ids", "max_tokens"} & {*self.asked[-1]}
        return web.json_response({"choices": [self.choice]}, status=400 if refuses else 200)


async def compared(
    settings: Mapping[str, Any] = MappingProxyType({}), **answering: Answering | None
) -> list[Divergence]:
    """Divergences of these variants; None is one that is down."""
    async with AsyncExitStack() as stack:
        urls = dict.fromkeys(answering, "http://127.0.0.1:1/v1")
        for name, each in answering.items():
            if each:
                urls[name] = await stack.enter_async_context(server(each.answer))
        variants = [each | settings.get(each["name"], {}) for each in samples.variants(**urls)]
        return await compare(samples.config(variants=variants))


@pytest.mark.parametrize(
    ("base", "speculative", "length", "first"),
    [
        ("one two three", "one 2 three", 3, 2),
        ("one two", "one two three", 3, 3),
        ("", "", 0, None),
    ],
)
async def test_the_first_difference(
    base: str, speculative: str, length: int, first: int | None
) -> None:
    expected = [Divergence("SD", name, "word", length, first) for name in ("counting", "sonnets")]
    assert await compared(Base=Answering(base), SD=Answering(speculative)) == expected


def said(text: str, ids: list[int]) -> Answering:
    return Answering(message={"content": text}, token_ids=ids)


@pytest.mark.parametrize(
    ("speculative", "unit", "first"),
    [
        (said("one two", [7, 8, 9]), "token", 2),  # the text hides it
        (said("one two", [7, 5, 9]), "token", None),
        (Answering("one two"), "word", None),
        (Answering("one 2", strict=True), "word", 2),
    ],
)
async def test_tokens_are_compared_where_both_sides_say_them(
    speculative: Answering, unit: str, first: int | None
) -> None:
    divergences = await compared(Base=said("one two", [7, 5, 9]), SD=speculative)
    assert {(each.unit, each.first) for each in divergences} == {(unit, first)}


async def test_a_matched_baseline_is_compared_with_the_one_that_decides() -> None:
    without = {"without": "async scheduling"}
    settings = {"SD": without, "Base-matched": without | {"baseline": None}}
    endpoints = {"Base": Answering("a b"), "SD": Answering("a c"), "Base-matched": Answering("a d")}
    divergences = await compared(settings, **endpoints)
    assert {(each.variant, each.first) for each in divergences} == {("SD", 2), ("Base-matched", 2)}


async def test_each_variant_gets_the_same_and_is_compared_with_its_baseline() -> None:
    base, k7 = Answering("one two"), Answering("one three")
    other = Answering(message={"content": [{"text": "a"}]})
    divergences = await compared(Base=base, k3=Answering("one two"), k5=None, k6=other, k7=k7)
    assert [(each.variant, each.case, each.first) for each in divergences] == [
        ("k3", "counting", None),
        ("k7", "counting", 2),
        ("k3", "sonnets", None),
        ("k7", "sonnets", 2),
    ]
    assert base.asked == k7.asked
    assert {(body["temperature"], body["max_tokens"]) for body in base.asked} == {(0, 20)}
    assert len({body["messages"][0]["content"] for body in base.asked}) == 2
