"""What all tests share: the article's experiment, loaded and synthesised once."""

from __future__ import annotations

import fcntl
import functools
import gc
import os
from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings

from experiment import Experiment, load
from tests.experiment import files
from tests.matrix import MATRIX, SWEEP, THREE_VARIANTS

if TYPE_CHECKING:
    from tests.synthesis import Of, Synthesised, Vary

# Each worker has one core, and V8's four threads for compiling and collecting, on that one, cost
# a synthesis a sixth of its CPU.
os.environ.setdefault("NODE_OPTIONS", "--v8-pool-size=1")
# The CDK's own rules are asked by make test-cdk, and of each experiment by make scan.
os.environ.setdefault("CDK_VALIDATION", "false")

# How long an example takes depends on what else the machine does.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """What importing makes stays: to look through it for garbage, then or later, takes seconds."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.fixture(scope="session")
def article() -> Experiment:
    return load(files.ARTICLE)


@pytest.fixture(scope="session")
def variation(tmp_path_factory: pytest.TempPathFactory) -> Vary:
    """Makes an experiment that differs from the article's in the dotted fields given."""
    directory = tmp_path_factory.mktemp("variations")

    def vary(changes: dict[str, Any]) -> Experiment:
        return load(edited(directory, changes))

    return vary


@pytest.fixture(scope="session")
def of_matrix(variation: Vary, tmp_path_factory: pytest.TempPathFactory) -> Of:
    """Synthesises an experiment of the matrix, once for all workers.

    A fixture with parameters is made anew whenever the parameter changes, so with every file.
    """
    # Only here: the process that hands out the tests needs no CDK, and the workers wait for it.
    from tests.synthesis import Synthesised, synthesise

    base = tmp_path_factory.getbasetemp()
    shared = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "matrix"
    shared.mkdir(exist_ok=True)

    @functools.cache
    def of(name: str) -> Synthesised:
        experiment, folder = variation(MATRIX[name]), shared / str([*MATRIX].index(name))
        with folder.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not folder.exists():
                synthesise(experiment, folder)
        return Synthesised(experiment, folder / "cdk.out")

    return of


@pytest.fixture(scope="session")
def synthesised(of_matrix: Of) -> Synthesised:
    return of_matrix("article")


@pytest.fixture(scope="session", params=MATRIX)
def every(request: pytest.FixtureRequest, of_matrix: Of) -> Synthesised:
    """Each experiment of the matrix, synthesised: for linters, schemas and pod security."""
    return of_matrix(request.param)


@pytest.fixture(scope="session", params=["article", SWEEP])
def each(request: pytest.FixtureRequest, of_matrix: Of) -> Synthesised:
    """Services side by side, and a sweep: the two shapes that stacks and charts have."""
    return of_matrix(request.param)


@pytest.fixture(scope="session", params=["article", THREE_VARIANTS])
def side_by_side(request: pytest.FixtureRequest, of_matrix: Of) -> Synthesised:
    """Two whose variants are services that load what a Job compiled."""
    return of_matrix(request.param)


def edited(directory: Path, changes: dict[str, Any]) -> Path:
    path = directory / "mine.yaml"
    path.write_text(files.edited(changes), encoding="utf-8")
    return path
