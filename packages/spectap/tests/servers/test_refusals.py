"""Servers that refuse what is asked of them: measured in another way, or ended in a line.

Cases: redirect_307, strict_stream_options, max_tokens_refused.
"""

import pytest

from tests.servers.conftest import Measure
from tests.servers.scripted import TOKENS, Exchange

BAD = "400 Bad Request"


def test_a_redirect_of_completions_is_named_and_not_followed(measure: Measure) -> None:
    async def answer(exchange: Exchange) -> None:
        target = exchange.path.replace("/v1/", "/v2/")
        location = f"Location: http://{exchange.headers['host']}{target}?x=1"
        await exchange.head("307 Temporary Redirect", "text/plain", location, "Content-Length: 0")

    measured = measure(answer, status=2)
    for side, line in zip(("base", "sd"), measured.ended.err.splitlines()[-2:], strict=True):
        target = f"{measured.servers.url(side)}/v2/chat/completions?x=1"
        assert line.endswith(f"HTTP 307: redirects to {target}, which is not followed")
    assert measured.servers.asked.total() <= 4, "no round was spent on it"


def test_a_server_without_continuous_usage_is_measured_without(measure: Measure) -> None:
    refused: list[str] = []

    async def answer(exchange: Exchange) -> None:
        if "continuous_usage_stats" in exchange.fields.get("stream_options", {}):
            refused.append(exchange.side)
            where = ["body", "stream_options", "continuous_usage_stats"]
            detail = {"type": "extra_forbidden", "loc": where, "msg": "Extra inputs"}
            await exchange.json({"message": {"detail": [detail]}}, "422 Unprocessable Entity")
        else:
            await exchange.good()

    measured = measure(answer)
    assert sorted(refused) == ["base", "sd"], "it is learnt once"
    assert measured.text.count("sd refuses continuous_usage_stats: tokens are counted by the") == 1
    assert {record.output_tokens for record in measured.records} == {TOKENS}


@pytest.mark.parametrize("renames", [True, False])
def test_a_limit_of_tokens_is_sent_by_its_new_name(measure: Measure, renames: bool) -> None:
    """As OpenAI's reasoning models want it (mlcommons/modelbench#1190)."""
    hint = "Use 'max_completion_tokens' instead." if renames else "Ask for less."

    async def answer(exchange: Exchange) -> None:
        if "max_tokens" in exchange.fields:
            error = {"message": f"Unsupported parameter: 'max_tokens'. {hint}", "code": None}
            await exchange.json({"error": error}, BAD)
        else:
            assert exchange.fields["max_completion_tokens"] == TOKENS
            await exchange.good()

    measured = measure(answer, "--rounds", "3", status=0 if renames else 2)
    if not renames:
        assert "sd: no request to" in measured.text
        assert "succeeded: HTTP 400: Unsupported parameter: 'max_tokens'. Ask" in measured.text
