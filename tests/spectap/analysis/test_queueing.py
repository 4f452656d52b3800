"""A queue is seen from the ledger alone, and none where requests only share a server."""

from __future__ import annotations

import pytest

from tests.bench.queueing import Server, recognised

RUNS = 20


@pytest.mark.parametrize(
    "server",
    [
        Server(12, 1),
        Server(2, 1, requests=8),
        Server(9, 8, requests=18),
        Server(8, 4, prefill=0.8),
        Server(1.2, 1, open=True, requests=12),
        Server(6, 4, open=True, requests=24),
    ],
)
def test_a_queue_is_seen_without_the_batch(server: Server) -> None:
    assert recognised(server, RUNS) == 1


@pytest.mark.parametrize("scatter", [0.1, 0.5])
@pytest.mark.parametrize(
    "server",
    [
        (1, False),
        (2, False),
        (16, False),
        (0.5, True),
        (6, True),
    ],
)
def test_requests_that_only_share_a_server_do_not_queue(
    server: tuple[float, bool], scatter: float
) -> None:
    load, is_open = server
    assert not recognised(Server(load, None, is_open, 0.4, scatter, requests=16), RUNS)
