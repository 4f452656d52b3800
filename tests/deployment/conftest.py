"""An embedded AWS for the commands of a module, and places in it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from deployment import place
from deployment.cluster import ADDRESS_VARIABLE
from deployment.place import Place
from tests.aws.client import Aws, embedded_aws
from tests.conftest import edited
from tests.deployment.api import Objects, serving

REGION: Final = "us-east-2"


@pytest.fixture(scope="module")
def aws(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Aws]:
    """Empty."""
    with embedded_aws(REGION, tmp_path_factory.mktemp("aws") / "aws.log") as aws:
        yield aws


@pytest.fixture
def at(aws: Aws, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Place]:
    """Makes the place of an experiment of that name, the article's but for changed fields."""
    for name, value in aws.environment.items():
        monkeypatch.setenv(name, value)

    def make(name: str, changes: dict[str, Any] | None = None) -> Place:
        return place.find(str(edited(tmp_path, {"name": name} | (changes or {}))))

    return make


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> Iterator[Objects]:
    """In the place of the cluster's own API."""
    with serving() as objects:
        monkeypatch.setenv(ADDRESS_VARIABLE, objects.url)
        yield objects
