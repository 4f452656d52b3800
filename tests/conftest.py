"""What all tests share: the article's experiment, loaded and synthesised once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from experiment import Experiment, load
from tests.matrix import MATRIX
from tests.synthesis import ROOT, Synthesised, synthesise

ARTICLE = ROOT / "experiments" / "article.yaml"


@pytest.fixture(scope="session")
def article() -> Experiment:
    """The article's experiment."""
    return load(ARTICLE)


@pytest.fixture(scope="session")
def synthesised(article: Experiment, tmp_path_factory: pytest.TempPathFactory) -> Synthesised:
    """The article's cloud assembly and manifests."""
    return synthesise(article, tmp_path_factory.mktemp("article"))


@pytest.fixture(scope="session")
def variation(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Experiment]:
    """Makes an experiment that differs from the article's in the dotted fields given."""
    directory = tmp_path_factory.mktemp("variations")

    def vary(changes: dict[str, Any]) -> Experiment:
        return load(edited(directory, changes))

    return vary


@pytest.fixture(scope="session", params=MATRIX)
def each(
    request: pytest.FixtureRequest,
    variation: Callable[[dict[str, Any]], Experiment],
    tmp_path_factory: pytest.TempPathFactory,
) -> Synthesised:
    """Each experiment of the matrix, synthesised."""
    return synthesise(variation(MATRIX[request.param]), tmp_path_factory.mktemp("matrix"))


def edited(directory: Path, changes: dict[str, Any]) -> Path:
    """A copy of the article's file in ``directory`` with dotted fields changed."""
    yaml = YAML(typ="safe", pure=True)
    data = yaml.load(ARTICLE)
    for field, value in changes.items():
        *parents, last = field.split(".")
        where = data
        for parent in parents:
            where = where[parent]
        where[last] = value
    path = directory / "mine.yaml"
    yaml.dump(data, path)
    return path
