"""Servers' own counters that are not of one process, or not the measured one's."""

import itertools
from collections.abc import Callable

import pytest

from spectap.endpoint.counters import Obstacle
from spectap.report import results
from tests.servers.conftest import Measure
from tests.servers.scripted import STEP, TOKENS, Exchange, models


def page(answers: int, steps: int, more: int = 0) -> str:
    """A page of vLLM's after so many answers; ``more`` tokens were counted before."""
    tokens = TOKENS * answers + more
    return (
        f'vllm:generation_tokens_total{{model_name="m"}} {tokens}.0\n'
        f'vllm:request_generation_tokens_sum{{model_name="m"}} {tokens}.0\n'
        f'vllm:request_generation_tokens_count{{model_name="m"}} {answers + more // 24}.0\n'
        f'vllm:inter_token_latency_seconds_count{{model_name="m"}} {steps * answers + more}.0\n'
        'vllm:num_requests_running{model_name="m"} 0.0\n'
        'vllm:num_requests_waiting{model_name="m"} 0.0\n'
    )


STEPS = {"base": TOKENS - 1, "sd": -(-(TOKENS - 1) // STEP["sd"])}


async def text(exchange: Exchange, content: str = "") -> None:
    await exchange.head("200 OK", "text/plain", f"Content-Length: {len(content)}")
    await exchange.write(content.encode())


TURNS = itertools.cycle([9000, 0])


@pytest.mark.parametrize(
    ("others", "obstacle"),
    [
        # Replicas that take turns; and one that another client asks, too.
        (lambda answers: next(TURNS), Obstacle.FELL),
        (lambda answers: 9000 * answers, Obstacle.OTHERS),
    ],
)
def test_counts_of_other_requests_never_agree(
    measure: Measure, others: Callable[[int], int], obstacle: Obstacle
) -> None:
    async def other(exchange: Exchange) -> None:
        if exchange.path != "/metrics":
            return await models(exchange)
        answers = len(exchange.sent)
        more = others(answers) if exchange.side == "sd" else 0
        await text(exchange, page(answers, STEPS[exchange.side], more))

    measured = measure(Exchange.good, other=other)
    base, sd = sorted(results.read(measured.folder).checks, key=lambda check: check.variant)
    assert [figure.agrees for figure in base.figures] == [True, True]
    assert (sd.figures, set(sd.obstacles)) == ((), {obstacle})
    assert "2 of 2 figures agree" in measured.text
    assert "sd's own counters are not comparable in 4 loads, because they" in measured.text


def test_behind_a_gateway_health_and_counters_are_of_the_paths_own_server(
    measure: Measure,
) -> None:
    """At the gateway's root lie those of a server that does not even serve."""
    answered = {"base": 0, "sd": 0}

    async def answer(exchange: Exchange) -> None:
        side = exchange.path.split("/")[1]
        await exchange.good(step=STEP[side])
        answered[side] += 1

    async def other(exchange: Exchange) -> None:
        side, _, path = exchange.path.removeprefix("/").partition("/")
        if side in answered and path == "metrics":
            await text(exchange, page(answered[side], STEPS[side]))
        elif side in answered and path == "health":
            await text(exchange)
        elif exchange.path == "/metrics":
            await text(exchange, page(0, 0))
        elif exchange.path == "/health":
            await exchange.json({}, "503 Service Unavailable")
        else:
            await models(exchange)

    behind = measure(
        answer, other=other, at=lambda servers, side: servers.url("base", f"/{side}/v1")
    )
    assert "4 of 4 figures agree" in behind.text
