"""A deploy changes the number of no node that stands."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from deployment import lifecycle
from deployment.place import Place
from rehearsal.aws.client import Aws
from tests.deployment import account

At = Callable[..., Place]


@pytest.fixture
def told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Place], list[str]]:
    """What a deploy tells the CDK CLI, in whose place a script stands that writes it down."""
    written = tmp_path / "told"
    script = tmp_path / "cdk"
    script.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > {written}\n')
    script.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")

    def deploy(place: Place) -> list[str]:
        assert lifecycle.deploy(place, [], yes=True) == 0
        return written.read_text().splitlines()

    return deploy


def kept(arguments: list[str]) -> list[str]:
    """The parameters of a deploy."""
    return [value for word, value in pairwise(arguments) if word == "--parameters"]


def test_the_first_deploy_makes_groups_without_nodes(
    at: At, told: Callable[[Place], list[str]]
) -> None:
    assert kept(told(at("first"))) == [
        "first-trainium:KeepTrainiumNodes=false",
        "first-trainium:KeepCompileNodes=false",
    ]


def test_nodes_that_stand_are_left_alone_and_only_while_they_do(
    aws: Aws, at: At, told: Callable[[Place], list[str]]
) -> None:
    """The CLI goes on with what it was told last, so it is told each time."""
    place = at("standing")
    account.cluster(aws, place)
    account.trainium(aws, place, 0)
    assert kept(told(place))[0] == "standing-trainium:KeepTrainiumNodes=false"
    account.start(aws, place)
    assert kept(told(place)) == [
        "standing-trainium:KeepTrainiumNodes=true",
        "standing-trainium:KeepCompileNodes=false",
    ]
    aws.client("eks").update_nodegroup_config(
        clusterName=place.name, nodegroupName=account.NODES, scalingConfig={"desiredSize": 0}
    )
    assert kept(told(place))[0] == "standing-trainium:KeepTrainiumNodes=false"


def test_a_change_of_nodes_in_a_capacity_block_is_warned_of(
    aws: Aws, at: At, told: Callable[[Place], list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    block = {
        "capacity.purchase": "capacity-block",
        "capacity.reservation_id": "cr-0123456789abcdef0",
    }
    place = at("block", block)
    account.cluster(aws, place)
    account.trainium(aws, place, 0)
    told(place)
    assert "Capacity Block stand" not in capsys.readouterr().out
    account.start(aws, place)
    told(place)
    assert "Capacity Block stand" in capsys.readouterr().out
