"""One control plane for all tests of this folder, with the article's nodes in it."""

import functools
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from experiment import Experiment
from experiment.hardware import TRN2_48XLARGE, InstanceType
from rehearsal.processes import interruptible
from tests.cluster.api import Cluster
from tests.cluster.deployment import deployed
from tests.cluster.hardware import (
    compile_nodes,
    csi_driver,
    device_class,
    resource_slice,
    system_nodes,
    trainium_node,
)
from tests.cluster.kubelets import Kubelets
from tests.control_plane.programs import ControlPlaneError, NoPrograms, programs
from tests.control_plane.servers import ControlPlane, control_plane
from tests.rehearsal.conftest import write_deployed
from tests.synthesis import ACCOUNT, Synthesised


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
    for manifest in (device_class(), csi_driver()):
        cluster.create(manifest)
    return cluster


@pytest.fixture(scope="session")
def kubelets(cluster: Cluster, synthesised: Synthesised) -> Iterator[Kubelets]:
    """Those of one Trainium node and of the CPU nodes."""
    with Kubelets(cluster) as kubelets:
        for node in (*system_nodes(synthesised), *compile_nodes(synthesised)):
            kubelets.add(node)
        add_trainium(cluster, kubelets, synthesised, 0)
        yield kubelets


def add_trainium(
    cluster: Cluster,
    kubelets: Kubelets,
    synthesised: Synthesised,
    number: int,
    instance: InstanceType = TRN2_48XLARGE,
) -> str:
    node = trainium_node(synthesised, number, instance)
    name: str = node["metadata"]["name"]
    kubelets.add(node)
    cluster.create(resource_slice(name, instance))
    return name


@pytest.fixture(scope="session")
def rendered(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Experiment], Path]:
    """Renders an experiment, as ``app.py`` does for an account, into a ``dist/`` of its own."""

    def render(experiment: Experiment) -> Path:
        folder = tmp_path_factory.mktemp("dist")
        write_deployed(experiment, ACCOUNT, folder)
        return folder

    return render


@pytest.fixture(scope="session")
def manifests(article: Experiment, rendered: Callable[[Experiment], Path]) -> Path:
    return rendered(article)


@pytest.fixture(scope="module")
def deployment(cluster: Cluster, kubelets: Kubelets, manifests: Path) -> Iterator[Path]:
    with deployed(cluster, manifests):
        yield manifests
