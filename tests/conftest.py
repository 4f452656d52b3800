"""What all tests share: the article's experiment, loaded and synthesised once."""

from __future__ import annotations

import functools
import gc
import os
from collections.abc import Callable, Generator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
from hypothesis import HealthCheck, settings
from ruamel.yaml import YAML
from xdist.scheduler import LoadFileScheduling

from experiment import Experiment, load
from tests.experiment.files import ABSENT
from tests.matrix import MATRIX, SERVED_BY_NXDI, STANDING

if TYPE_CHECKING:
    from tests.synthesis import Synthesised

ARTICLE = Path(__file__).parent.parent / "experiments" / "article.yaml"

# Each worker has one core, and V8's four threads for compiling and collecting, on that one, cost
# a synthesis a sixth of its CPU.
os.environ.setdefault("NODE_OPTIONS", "--v8-pool-size=1")

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


# To one worker: to synthesise the matrix twice would take longer than to share it costs.
SHARING: Final = (
    *("tests/charts/", "tests/stacks/", "tests/rehearsal/aws/"),
    *("tests/rehearsal/pod/test_manifest.py", "tests/rehearsal/vllm/"),
    "tests/diff/test_resources.py",
)
# But not these, which run the pods' scripts and synthesise nothing.
SCRIPTS: Final = ("tests/charts/test_cache_scripts.py", "tests/charts/test_scripts.py")
# Then these, which take longest: one begun last would leave the other worker with nothing to do.
LONG: Final = (
    "tests/rehearsal/test_sweep.py",
    "tests/test_deployment.py",
    "tests/spectap/commands/",
    "tests/rehearsal/",
    "tests/diff/test_command.py",
    "tests/spectap/test_main.py",
    "tests/deployment/",
    "tests/test_app.py",
    "tests/spectap/analysis/",
    "tests/spectap/run/test_run.py",
)


class _Scheduling(LoadFileScheduling):  # type: ignore[misc]  # xdist has no types
    """A file to a worker at a time; those that share the matrix, to one worker."""

    def _split_scope(self, nodeid: str) -> str:
        shares = nodeid.startswith(SHARING) and not nodeid.startswith(SCRIPTS)
        return "matrix" if shares else super()._split_scope(nodeid)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> _Scheduling:
    """Files are handed out in the order of the items, not by how many tests they have."""
    config.option.loadscopereorder = False
    return _Scheduling(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Those of ``SHARING`` first, then those of ``LONG``, then the others."""
    first = [*SHARING, *LONG]

    def place(item: pytest.Item) -> int:
        return next((i for i, start in enumerate(first) if item.nodeid.startswith(start)), 99)

    items.sort(key=place)


@pytest.fixture(scope="session")
def article() -> Experiment:
    """The article's experiment."""
    return load(ARTICLE)


@pytest.fixture(scope="session")
def variation(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Experiment]:
    """Makes an experiment that differs from the article's in the dotted fields given."""
    directory = tmp_path_factory.mktemp("variations")

    def vary(changes: dict[str, Any]) -> Experiment:
        return load(edited(directory, changes))

    return vary


@pytest.fixture(scope="session")
def of_matrix(
    variation: Callable[[dict[str, Any]], Experiment], tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], Synthesised]:
    """Synthesises an experiment of the matrix, once.

    A fixture with parameters is made anew whenever the parameter changes, so with every file.
    """
    # Only here: the process that hands out the tests needs no CDK, and the workers wait for it.
    from tests.synthesis import synthesise

    return functools.cache(
        lambda name: synthesise(variation(MATRIX[name]), tmp_path_factory.mktemp("matrix"))
    )


@pytest.fixture(scope="session")
def synthesised(of_matrix: Callable[[str], Synthesised]) -> Synthesised:
    """The article's cloud assembly and manifests."""
    return of_matrix("article")


@pytest.fixture(scope="session", params=MATRIX)
def each(request: pytest.FixtureRequest, of_matrix: Callable[[str], Synthesised]) -> Synthesised:
    """Each experiment of the matrix, synthesised."""
    return of_matrix(request.param)


@pytest.fixture(scope="session", params=STANDING)
def standing(
    request: pytest.FixtureRequest, of_matrix: Callable[[str], Synthesised]
) -> Synthesised:
    """Each experiment of the matrix whose variants are services."""
    return of_matrix(request.param)


@pytest.fixture(scope="session", params=SERVED_BY_NXDI)
def served_by_nxdi(
    request: pytest.FixtureRequest, of_matrix: Callable[[str], Synthesised]
) -> Synthesised:
    """Each experiment of the matrix whose servers load what a Job compiled."""
    return of_matrix(request.param)


@pytest.fixture(scope="session", params=[name for name in STANDING if name in SERVED_BY_NXDI])
def standing_on_nxdi(
    request: pytest.FixtureRequest, of_matrix: Callable[[str], Synthesised]
) -> Synthesised:
    """Each whose variants are services that load what a Job compiled."""
    return of_matrix(request.param)


def edited(directory: Path, changes: dict[str, Any]) -> Path:
    """A copy of the article's file in ``directory`` with dotted fields changed."""
    yaml = YAML(typ="safe", pure=True)
    data = yaml.load(ARTICLE)
    for field, value in changes.items():
        *parents, last = field.split(".")
        where = data
        for parent in parents:
            where = where[parent]
        if value is ABSENT:
            del where[last]
        else:
            where[last] = value
    path = directory / "mine.yaml"
    yaml.dump(data, path)
    return path
