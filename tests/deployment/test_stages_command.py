"""``make experiment``, ``start`` and ``stop`` as a person calls them, before anything runs."""

from __future__ import annotations

import signal
import sys
from unittest import mock

import pytest

from deployment.__main__ import main
from deployment.account import Deployment
from rehearsal.aws.client import Aws
from tests.deployment import account
from tests.deployment.conftest import At


def command(name: str, deployment: Deployment, *options: str) -> int:
    """In process; returns the exit status."""
    words = ["deployment", name, *options, "--experiment", deployment.file]
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        with mock.patch.object(sys, "argv", words):
            return main()
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


def test_without_a_terminal_no_node_is_started_unasked(
    aws: Aws, at: At, capsys: pytest.CaptureFixture[str]
) -> None:
    deployment = at("unasked")
    account.groups(aws, deployment)
    assert command("start", deployment) == 1
    printed = capsys.readouterr()
    assert "1 x trn2.48xlarge: 35.76 USD an hour, for 4.0 hours at most" in printed.out
    assert printed.err == "there is no terminal to ask on; YES=1 begins without asking\n"
    assert account.sizes(deployment)["trainium"] == 0
    assert account.schedules(aws, deployment) == []
    # What is running is said even where half of it cannot be asked.
    assert "no Trainium node and no compile node" in printed.out
    assert f"make stop EXPERIMENT={deployment.file}" in printed.out


def test_without_stacks_nothing_is_started_and_nothing_to_stop(
    at: At, capsys: pytest.CaptureFixture[str]
) -> None:
    deployment = at("nowhere")
    assert command("start", deployment, "--yes") == 1
    printed = capsys.readouterr()
    assert printed.err == "there are no trainium nodes to start: nowhere-trainium lacks them\n"
    assert f"make experiment EXPERIMENT={deployment.file}" in printed.out
    assert command("stop", deployment) == 0


def test_stopping_says_what_it_stopped_and_what_still_costs(
    aws: Aws, at: At, capsys: pytest.CaptureFixture[str]
) -> None:
    deployment = at("ended")
    account.groups(aws, deployment)
    account.scale(aws, deployment, 2)
    assert command("stop", deployment) == 0
    printed = capsys.readouterr().out
    for kind in ("trainium", "compile"):
        assert f"{kind} nodes: scaled to 0, confirmed by EKS" in printed
    assert "What still costs, by the hour:" in printed
    assert account.sizes(deployment) == {"trainium": 0, "compile": 0}
