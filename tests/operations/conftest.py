"""An account in memory, a deployment in it, and an API server for its cluster."""

import copy
import functools
import io
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO
from unittest import mock

import cdk8s
import pytest
from kubernetes.client import Configuration

from charts.manifests import charts
from charts.names import Deployed, bucket_name
from experiment import Experiment, load
from experiment.loader import parse
from operations import __main__ as commands
from operations import cluster
from operations.account import Deployment
from operations.cluster import ADDRESS_VARIABLE
from operations.console import Console
from operations.stages.stage import Progress, Stage
from tests.conftest import edited as edited_file
from tests.experiment.files import ARTICLE, edited
from tests.operations.api import Objects, serving
from tests.operations.fake_aws import ACCOUNT, MINUTE, FakeAws
from tests.operations.operators import Operator, add_cluster, experiment_operator, node_operator

# Every object that the client reads makes a configuration, which sets the level of its loggers.
Configuration.debug = False

IMAGE = {"benchmark.image": "registry.example/benchmark:1"}


@pytest.fixture(scope="session", autouse=True)
def _looks_often() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("operations.stages.stage.POLL_SECONDS", 0.01)
        yield


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch) -> FakeAws:
    aws = FakeAws("article")
    aws.take_the_place(monkeypatch)
    monkeypatch.setattr(cluster, "token", lambda deployment, role: "a-token")
    return aws


@pytest.fixture
def deployment(aws: FakeAws) -> Deployment:
    """Of the article's experiment, of which the account has nothing yet."""
    assert aws.facts
    return Deployment(article(), str(ARTICLE), ACCOUNT)


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> Iterator[Objects]:
    with serving() as objects:
        monkeypatch.setenv(ADDRESS_VARIABLE, objects.url)
        yield objects


@pytest.fixture
def operator() -> Iterator[Operator]:
    """The stack of the node groups, deployed, without nodes."""
    with node_operator() as deployed:
        yield deployed


def operating(folder: Path, changes: dict[str, Any]) -> Any:
    file = edited_file(folder, changes | IMAGE)
    return experiment_operator(folder, file, rendered(load(str(file))))


article = functools.cache(lambda: load(str(ARTICLE)))


@functools.cache
def _rendered(experiment: str) -> list[dict[str, Any]]:
    parsed = Experiment.model_validate_json(experiment)
    listed = charts(cdk8s.App(), parsed, Deployed("bucket", "image:1"))
    return [manifest for chart in listed for manifest in chart.to_json()]


def rendered(experiment: Experiment) -> list[dict[str, Any]]:
    return copy.deepcopy(_rendered(experiment.model_dump_json()))


def at(changes: dict[str, Any]) -> Deployment:
    return Deployment(parse(edited(changes), "mine.yaml"), "mine.yaml", ACCOUNT)


def with_cluster(aws: FakeAws) -> None:
    add_cluster(aws, "article", aws.cloudformation.add("cluster"))


def with_nodes(aws: FakeAws, size: int = 0) -> None:
    """Both groups in a cluster, with so many Trainium nodes that nothing guards."""
    with_cluster(aws)
    aws.cloudformation.deploy({"trainium": 1, "compile": 1})
    aws.clock.advance(5 * MINUTE)
    scale(aws, size)


def scale(aws: FakeAws, size: int) -> None:
    group = aws.eks.groups["trainium-1"]
    group.desired = group.scaled = size


def sizes(aws: FakeAws) -> list[int]:
    return [aws.eks.groups[f"{kind}-1"].scaled for kind in ("trainium", "compile")]


def put(aws: FakeAws, *keys: str, body: str = "") -> None:
    """Objects in the experiment's bucket, which is made if there is none."""
    for key in keys:
        aws.store.put(bucket_name(article(), ACCOUNT), key, body)


def called(name: str, file: str, *options: str) -> int:
    """As a person calls a command; returns the exit status."""
    words = ["deployment", name, *options, "--experiment", file]
    with mock.patch.object(sys, "argv", words), mock.patch.object(signal, "signal"):
        return commands.main()


def performed(stage: Stage, log: TextIO | None = None) -> str:
    """What a stage shows in a log, its result included."""
    log = log or io.StringIO()
    console = Console(1, log)
    with console.stage(stage.name) as line:
        line.result = stage.perform(Progress(console, line))
    return log.getvalue() if isinstance(log, io.StringIO) else ""
