"""``make experiment``, ``start`` and ``stop`` as a person calls them, before anything stands."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from deployment.place import Place
from rehearsal.aws.client import Aws
from tests.deployment.groups import schedules, sizes, stand

At = Callable[..., Place]
ROOT = Path(__file__).parents[2]


def deployment(aws: Aws, place: Place, *arguments: str) -> subprocess.CompletedProcess[str]:
    path = f"{Path(sys.executable).parent}:{ROOT}/node_modules/.bin:{aws.environment['PATH']}"
    return subprocess.run(
        [sys.executable, "-m", "deployment", *arguments, "--experiment", place.file],
        cwd=ROOT,
        env={**aws.environment, "PATH": path, "CDK_DISABLE_CLI_TELEMETRY": "true"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


def test_without_a_terminal_no_node_is_started_unasked(aws: Aws, at: At) -> None:
    place = at("unasked")
    stand(aws, place)
    done = deployment(aws, place, "start")
    assert done.returncode == 1
    assert "1 x trn2.48xlarge: 35.76 USD an hour, for 4.0 hours at most" in done.stdout
    assert done.stderr == "there is no terminal to ask on; YES=1 begins without asking\n"
    assert sizes(place)["trainium"] == 0
    assert schedules(aws, place) == {}
    # What stands is said even where half of it cannot be asked.
    assert "no Trainium node and no compile node" in done.stdout
    assert f"make stop EXPERIMENT={place.file}" in done.stdout


def test_starting_without_stacks_is_one_line_and_how_to_go_on(aws: Aws, at: At) -> None:
    place = at("nowhere")
    done = deployment(aws, place, "start", "--yes")
    assert done.returncode == 1
    assert done.stderr == "there are no trainium nodes to start: nowhere-trainium lacks them\n"
    assert f"make experiment EXPERIMENT={place.file}" in done.stdout


def test_stopping_says_what_it_stopped_and_what_still_costs(aws: Aws, at: At) -> None:
    place = at("ended")
    stand(aws, place)
    aws.client("eks").update_nodegroup_config(
        clusterName="ended", nodegroupName="its-nodes", scalingConfig={"desiredSize": 2}
    )
    done = deployment(aws, place, "stop")
    assert done.returncode == 0, done.stderr
    for kind in ("trainium", "compile"):
        assert f"{kind} nodes: scaled to 0, confirmed by EKS" in done.stdout
    assert "What still costs, by the hour:" in done.stdout
    assert sizes(place) == {"trainium": 0, "compile": 0}


def test_stopping_what_is_not_there_is_no_error(aws: Aws, at: At) -> None:
    done = deployment(aws, at("absent"), "stop")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("command", ["experiment", "start", "stop"])
def test_make_wants_the_experiment_named(command: str) -> None:
    outside = {k: v for k, v in os.environ.items() if not k.startswith(("MAKE", "MFLAGS"))}
    outside.pop("EXPERIMENT", None)
    done = subprocess.run(
        ["make", command], cwd=ROOT, env=outside, capture_output=True, text=True, check=False
    )
    assert done.returncode != 0
    assert f"EXPERIMENT is needed: make {command} EXPERIMENT=" in done.stderr
