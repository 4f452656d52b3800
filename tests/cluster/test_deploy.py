"""All stacks, by the CLI as a person calls it: made, changed, deleted and made again.

CloudFormation is the embedded AWS's, the cluster's API a real API server.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest
from kubernetes.client import BatchV1Api, CoreV1Api

from charts.names import NAMESPACE
from control_plane.programs import programs
from control_plane.servers import ControlPlane
from deployment import cluster, guard, nodes
from deployment.account import Deployment
from deployment.nodes import Kind
from experiment import load
from rehearsal.account.joined import account
from rehearsal.aws.client import Aws
from tests.conftest import edited
from tests.rehearsal.account.stacks import said, status
from tests.rehearsal.test_sweep import checkout
from tests.synthesis import ROOT

# With a ready image no Docker is needed.
IMAGE: Final = {"benchmark.image": "registry.example/benchmark:1"}
STACKS: Final = (
    *("network", "cluster", "model-store", "trainium"),
    *("serving", "observability", "budget"),
)
SECONDS: Final = 600.0


@dataclass(frozen=True)
class Account:
    """A bootstrapped account, and the project's files."""

    aws: Aws
    plane: ControlPlane
    root: Path
    folder: Path

    def run(self, command: str, *words: str, **changes: Any) -> str:
        """Runs a command on the article's experiment with changes; returns what it said."""
        file = edited(self.folder, IMAGE | changes)
        line = [sys.executable, "-m", "deployment", command, *words, "--experiment", str(file)]
        path = f"{Path(sys.executable).parent}:{ROOT}/node_modules/.bin:{os.environ['PATH']}"
        done = subprocess.run(
            line,
            cwd=self.root,
            env=dict(self.aws.environment) | {"PATH": path, "CDK_DISABLE_CLI_TELEMETRY": "true"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=SECONDS,
        )
        assert done.returncode == 0, done.stdout
        return done.stdout

    def statuses(self) -> dict[str, str]:
        return {name: status(self.aws, f"article-{name}") for name in STACKS}


@pytest.fixture(scope="module")
def mine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Account]:
    root, folder = tmp_path_factory.mktemp("checkout"), tmp_path_factory.mktemp("account")
    checkout(root)
    for name in ("deployment", "control_plane"):
        if not (root / name).exists():
            shutil.copytree(ROOT / name, root / name)
    experiment = load(edited(folder, IMAGE))
    with account(experiment, programs(os.environ), folder) as (aws, plane):
        its = Account(aws, plane, root, folder)
        its.run("bootstrap")
        its.run("deploy", "--yes")
        yield its


@pytest.fixture
def place(mine: Account, monkeypatch: pytest.MonkeyPatch) -> Deployment:
    for name, value in mine.aws.environment.items():
        monkeypatch.setenv(name, value)
    file = edited(mine.folder, IMAGE)
    return Deployment(load(file), str(file), mine.aws.account)


def jobs(place: Deployment) -> set[str]:
    """Names of the cluster's Jobs that compile, as the administrator's role sees them."""
    with cluster.connected(place) as api:
        found = BatchV1Api(api).list_namespaced_job(NAMESPACE).items
    return {job.metadata.name for job in found if job.metadata.name.startswith("compile-")}


def namespaces(place: Deployment) -> set[str]:
    with cluster.connected(place) as api:
        return {each.metadata.name for each in CoreV1Api(api).list_namespace().items}


def test_every_stack_is_made(mine: Account, place: Deployment) -> None:
    found = mine.statuses()
    assert found == dict.fromkeys(STACKS, "CREATE_COMPLETE")
    assert NAMESPACE in namespaces(place)
    assert len(jobs(place)) == 2
    assert {each.kind: each.size for each in nodes.groups(place)} == dict.fromkeys(Kind, 0)


def test_an_update_changes_the_cluster_and_leaves_nodes_alone(
    mine: Account, place: Deployment
) -> None:
    before = jobs(place)
    guard.start(place, Kind.TRAINIUM, 1)
    mine.run("deploy", "--yes", **{"serving.batch": 2, "benchmark.concurrency": 2})
    assert not {"UPDATE_FAILED", "ROLLBACK_COMPLETE"} & {*mine.statuses().values()}, said(
        mine.aws, "article-serving"
    )
    # Another batch is another graph: its Job is new, and the old one is pruned.
    assert len(jobs(place)) == 2
    assert not jobs(place) & before
    group = nodes.find(place, Kind.TRAINIUM)
    assert group is not None
    assert group.size == 1


def test_what_is_deleted_can_be_made_again(mine: Account, place: Deployment) -> None:
    mine.run("destroy", "--yes")
    stacks = mine.aws.client("cloudformation").describe_stacks()["Stacks"]
    assert {stack["StackName"] for stack in stacks} == {"CDKToolkit"}
    assert mine.aws.client("scheduler").list_schedules()["Schedules"] == []
    buckets = mine.aws.client("s3").list_buckets()["Buckets"]
    assert any("models" in bucket["Name"] for bucket in buckets), "it was to be retained"
    mine.run("deploy", "--yes")
    assert mine.statuses() == dict.fromkeys(STACKS, "CREATE_COMPLETE")
    assert NAMESPACE in namespaces(place)
