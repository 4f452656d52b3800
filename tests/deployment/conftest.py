"""An account in memory, a deployment in it, and an API server for its cluster."""

from __future__ import annotations

import copy
import functools
import io
from collections.abc import Iterator
from typing import Any, TextIO

import cdk8s
import pytest

from charts.manifests import charts
from charts.names import Deployed, bucket_name
from deployment import account, clock, cluster
from deployment.account import Deployment
from deployment.cluster import ADDRESS_VARIABLE
from deployment.console import Console
from deployment.stages.stage import Progress, Stage
from experiment import Experiment, load
from experiment.loader import parse
from tests.conftest import ARTICLE
from tests.deployment.api import Objects, serving
from tests.deployment.fake_aws import ACCOUNT, MINUTE, FakeAws
from tests.deployment.fake_aws.cloudformation import Template
from tests.deployment.fake_aws.terminal import add_cluster
from tests.experiment.files import edited


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch) -> FakeAws:
    """Empty, in the place of the real one."""
    aws = FakeAws("article")
    monkeypatch.setattr(account, "client", aws.client)
    monkeypatch.setattr(clock, "now", aws.clock.now)
    monkeypatch.setattr(clock, "sleep", aws.sleep)
    monkeypatch.setattr(cluster, "token", lambda deployment, role: "a-token")
    return aws


@pytest.fixture
def deployment(aws: FakeAws) -> Deployment:
    """Of the article's experiment, of which the account has nothing yet."""
    assert aws.facts
    return Deployment(article(), str(ARTICLE), ACCOUNT)


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> Iterator[Objects]:
    """In the place of the cluster's own API."""
    with serving() as objects:
        monkeypatch.setenv(ADDRESS_VARIABLE, objects.url)
        yield objects


article = functools.cache(lambda: load(str(ARTICLE)))


def rendered(experiment: Experiment) -> list[dict[str, Any]]:
    """All of its manifests, rendered once."""
    key = experiment.model_dump_json()
    if key not in _RENDERED:
        listed = charts(cdk8s.App(), experiment, Deployed("bucket", "image:1"))
        _RENDERED[key] = [manifest for chart in listed for manifest in chart.to_json()]
    return copy.deepcopy(_RENDERED[key])


_RENDERED: dict[str, list[dict[str, Any]]] = {}


def at(changes: dict[str, Any]) -> Deployment:
    """The article's experiment but for these fields."""
    return Deployment(parse(edited(changes), "mine.yaml"), "mine.yaml", ACCOUNT)


def with_cluster(aws: FakeAws) -> None:
    """The cluster and its stack."""
    add_cluster(aws, "article")
    role = f"arn:aws:iam::{ACCOUNT}:role/administrator"
    aws.cloudformation.add("cluster", outputs={cluster.ADMINISTRATOR_OUTPUT: role})


def with_nodes(aws: FakeAws, size: int = 0) -> None:
    """Both groups in a cluster, with so many Trainium nodes that nothing guards."""
    with_cluster(aws)
    aws.cloudformation.deploy(Template({"trainium": 1, "compile": 1}))
    aws.clock.advance(5 * MINUTE)
    scale(aws, size)


def scale(aws: FakeAws, size: int) -> None:
    """The Trainium nodes, by hand."""
    group = aws.eks.groups["trainium-1"]
    group.desired = group.scaled = group.reported = size


def sizes(aws: FakeAws) -> list[int]:
    """Of the Trainium and the compile nodes, as they were asked for last."""
    return [aws.eks.groups[f"{kind}-1"].desired for kind in ("trainium", "compile")]


def put(aws: FakeAws, *keys: str, body: str = "", name: str = "article") -> None:
    """Objects in the experiment's bucket, which is made if there is none."""
    experiment = article().model_copy(update={"name": name})
    for key in keys:
        aws.store.put(bucket_name(experiment, ACCOUNT), key, body)


def performed(stage: Stage, log: TextIO | None = None) -> str:
    """What a stage shows in a log, its result included."""
    log = log or io.StringIO()
    console = Console(1, log)
    with console.stage(stage.name) as line:
        line.result = stage.perform(Progress(console, line, poll_seconds=0.01))
    return log.getvalue() if isinstance(log, io.StringIO) else ""
