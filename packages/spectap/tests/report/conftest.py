"""Runs that several modules look at; none changes them."""

import pytest

from spectap.report.results import Results
from tests import generated_runs as generated
from tests.report import runs


@pytest.fixture(scope="session")
def comparison(tmp_path_factory: pytest.TempPathFactory) -> Results:
    """The article's two variants at one load point."""
    return runs.read(tmp_path_factory.mktemp("comparison"), generated.config())


@pytest.fixture(scope="session")
def ladder(tmp_path_factory: pytest.TempPathFactory) -> Results:
    """The same at five load points, with prompt sets and worse answers."""
    return runs.with_prompts(runs.ladder(tmp_path_factory.mktemp("ladder")))


@pytest.fixture(scope="session")
def sweep(tmp_path_factory: pytest.TempPathFactory) -> Results:
    """Two drafts, one of them with four windows, at two load points."""
    folder = tmp_path_factory.mktemp("sweep")
    return runs.ladder(folder, {1: 1.0, 4: 1.0}, {}, variants=runs.TWO_DRAFTS)
