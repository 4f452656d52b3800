"""One control plane for all tests of this folder, with the article's nodes in it."""

import contextlib
import functools
import itertools
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from experiment.hardware import TRN2_48XLARGE, InstanceType
from rehearsal.processes import interruptible
from tests.cluster.api import Cluster, Manifest
from tests.cluster.deployment import deployed
from tests.cluster.hardware import (
    CSI_DRIVER,
    DEVICE_CLASS,
    compile_nodes,
    resource_slice,
    system_nodes,
    trainium_node,
)
from tests.cluster.kubelets import Kubelets
from tests.control_plane.programs import ControlPlaneError, NoPrograms, programs
from tests.control_plane.servers import ControlPlane, control_plane
from tests.experiment.files import PUBLISHED
from tests.rehearsal.conftest import write_deployed
from tests.synthesis import ACCOUNT, Synthesised, Vary


@functools.cache
def why_not() -> str | None:
    """Why there is no control plane to be had. Ends all if it cannot be built."""
    try:
        programs(os.environ)
    except NoPrograms as reason:
        return str(reason)
    except ControlPlaneError as error:
        pytest.exit(f"control plane: {error}", returncode=1)
    return None


def pytest_runtest_setup() -> None:
    """Skips from one place, which pytest reports in one line."""
    if reason := why_not():
        pytest.skip(reason)


@pytest.fixture(scope="session")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    folder = tmp_path_factory.mktemp("plane")
    with interruptible(), control_plane(programs(os.environ), folder) as plane:
        yield plane


@pytest.fixture(scope="session")
def cluster(plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Cluster:
    """With what the drivers install in it."""
    cluster = Cluster(plane, tmp_path_factory.mktemp("cluster"))
    for manifest in (DEVICE_CLASS, CSI_DRIVER):
        cluster.create(manifest)
    return cluster


@pytest.fixture(scope="session")
def kubelets(cluster: Cluster, synthesised: Synthesised) -> Iterator[Kubelets]:
    """Those of one Trainium node and of the CPU nodes."""
    with Kubelets(cluster) as kubelets:
        for node in (*system_nodes(synthesised), *compile_nodes(synthesised)):
            kubelets.add(node)
        add_trainium(cluster, kubelets, trainium_node(synthesised, 0, TRN2_48XLARGE), TRN2_48XLARGE)
        yield kubelets


def add_trainium(
    cluster: Cluster, kubelets: Kubelets, node: Manifest, instance: InstanceType
) -> str:
    name: str = node["metadata"]["name"]
    kubelets.add(node)
    cluster.create(resource_slice(name, instance))
    return name


MoreNodes = Callable[..., contextlib.AbstractContextManager[list[str]]]


@pytest.fixture(scope="session")
def more_nodes(cluster: Cluster, kubelets: Kubelets, synthesised: Synthesised) -> MoreNodes:
    """So many Trainium nodes more, of the article's experiment or of another, for a while."""
    numbers = itertools.count(1)

    @contextlib.contextmanager
    def add(
        count: int = 1, instance: InstanceType = TRN2_48XLARGE, of: Synthesised = synthesised
    ) -> Iterator[list[str]]:
        nodes = [trainium_node(of, next(numbers), instance) for _ in range(count)]
        names = [add_trainium(cluster, kubelets, node, instance) for node in nodes]
        try:
            yield names
        finally:
            for name in names:
                kubelets.remove(name)

    return add


Rendered = Callable[[dict[str, Any]], Path]


@pytest.fixture(scope="session")
def rendered(variation: Vary, tmp_path_factory: pytest.TempPathFactory) -> Rendered:
    """Renders the article's experiment with changes, as for an account, into its own folder."""

    def render(changes: dict[str, Any]) -> Path:
        folder = tmp_path_factory.mktemp("dist")
        write_deployed(variation(changes), ACCOUNT, folder)
        return folder

    return render


@pytest.fixture(scope="session")
def manifests(rendered: Rendered) -> Path:
    return rendered(PUBLISHED)


@pytest.fixture(scope="module")
def deployment(cluster: Cluster, kubelets: Kubelets, manifests: Path) -> Iterator[Path]:
    with deployed(cluster, manifests):
        yield manifests
