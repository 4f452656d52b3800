"""A good server: the figures are what was sent."""

import pytest

from spectap.metrics import TIME_PER_OUTPUT_TOKEN
from tests.servers.conftest import Measure
from tests.servers.scripted import Exchange, serving


def test_figures_are_those_of_a_good_server(measure: Measure) -> None:
    async def answer(exchange: Exchange) -> None:
        await exchange.good()

    with serving(answer) as servers:
        measured = measure(servers)
    assert measured.ended.status == 0, measured.text
    for side in ("base", "sd"):
        assert measured.cell(side).errors == 0
        tpot = measured.p50(side, TIME_PER_OUTPUT_TOKEN)
        assert tpot == pytest.approx(servers.tpot(side), rel=0.25)
