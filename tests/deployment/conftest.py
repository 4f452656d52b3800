"""An embedded AWS for the commands of a module, and deployments in it."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, TextIO

import pytest

from deployment.account import Deployment
from deployment.cluster import ADDRESS_VARIABLE
from deployment.console import Console
from deployment.stages.stage import Progress, Stage
from tests.aws.client import Aws, embedded_aws
from tests.conftest import edited
from tests.deployment.api import Objects, serving

REGION: Final = "us-east-2"
At = Callable[..., Deployment]


@pytest.fixture(scope="module")
def aws(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Aws]:
    """Empty."""
    with embedded_aws(REGION, tmp_path_factory.mktemp("aws") / "aws.log") as aws:
        yield aws


@pytest.fixture
def at(aws: Aws, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> At:
    """Makes an experiment of that name there, the article's but for changed fields."""
    for name, value in aws.environment.items():
        monkeypatch.setenv(name, value)

    def make(name: str, changes: dict[str, Any] | None = None) -> Deployment:
        return Deployment.of(str(edited(tmp_path, {"name": name} | (changes or {}))))

    return make


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> Iterator[Objects]:
    """In the place of the cluster's own API."""
    with serving() as objects:
        monkeypatch.setenv(ADDRESS_VARIABLE, objects.url)
        yield objects


def performed(stage: Stage, log: TextIO | None = None) -> str:
    """What a stage shows in a log, its result included."""
    log = log or io.StringIO()
    console = Console(1, log)
    with console.stage(stage.name) as line:
        line.found = stage.perform(Progress(console, line, poll_seconds=0.01))
    return log.getvalue() if isinstance(log, io.StringIO) else ""
