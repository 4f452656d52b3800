"""Answers that end politely and are none: failures, in the server's own words, and no reward."""

from typing import Any

import pytest

from spectap.analysis.verdicts import Finding
from tests.servers.conftest import Measure
from tests.servers.scripted import STEP, Answer, Exchange, chunk, on_sd, usage, whole


def streams(finish: str | None, tokens: int, **choice: Any) -> Answer:
    """Answers with a few tokens and a last event, whose choice has these fields."""

    async def answer(exchange: Exchange) -> None:
        await exchange.begin()
        await exchange.step(tokens, usage=usage(tokens))
        last = chunk({"content": ""}, finish, usage=usage(tokens))
        last["choices"][0] |= choice
        await exchange.end(last, whole(tokens))

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
    measured = measure(on_sd(failing, every=3), status=1)
    failed = [record for record in measured.of("sd") if record.failed]
    assert failed
    assert all(words in (record.error or "") for record in failed)
    assert all(record.error is None for record in measured.of("base"))
    assert words.partition(": ")[2] or words in measured.text
    assert measured.verdict.finding is not Finding.FASTER
    assert "Keep it on" not in measured.text
