"""One control plane for all tests of this folder, with the article's nodes in it."""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Callable, Iterator

import pytest

from charts.names import NAMESPACE
from experiment import Experiment
from rehearsal.processes import interruptible
from tests.cluster.api import Cluster
from tests.cluster.deployment import Manifests, deployed, render
from tests.cluster.hardware import (
    compile_nodes,
    csi_driver,
    device_class,
    resource_slice,
    system_nodes,
    trainium_node,
)
from tests.cluster.kubelets import Kubelets
from tests.control_plane.choice import chosen, prepare
from tests.control_plane.programs import ControlPlaneError, NoPrograms
from tests.control_plane.servers import ControlPlane
from tests.synthesis import Synthesised


@functools.cache
def why_not() -> str | None:
    """Why there is no control plane to be had. Ends all if the one that is named will not do."""
    try:
        prepare(os.environ)
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
    with interruptible(), chosen(os.environ, tmp_path_factory.mktemp("plane")) as plane:
        yield plane


@pytest.fixture(scope="session")
def cluster(plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """With what the drivers install in it."""
    cluster = Cluster(plane, tmp_path_factory.mktemp("cluster"))
    installed = [device_class(), csi_driver()]
    with cordoned(cluster) if plane.lent else contextlib.nullcontext():
        for manifest in installed:
            cluster.create(manifest)
        yield cluster
        if plane.lent:
            for manifest in installed:
                cluster.delete(manifest)


@contextlib.contextmanager
def cordoned(cluster: Cluster) -> Iterator[None]:
    """Within it no pod goes to the nodes that are there.

    Ends all if the namespace is in use: the tests remove it.
    """
    if cluster.get("Namespace", NAMESPACE):
        pytest.exit(f"KUBECONFIG: the cluster has a namespace {NAMESPACE} already", returncode=1)
    nodes = [
        node["metadata"]["name"]
        for node in cluster.all("Node", None)
        if not node["spec"].get("unschedulable")
    ]
    cluster.kubectl("cordon", *nodes)
    try:
        yield
    finally:
        cluster.kubectl("uncordon", *nodes)


@pytest.fixture(scope="session")
def kubelets(cluster: Cluster, synthesised: Synthesised) -> Iterator[Kubelets]:
    """Those of one Trainium node and of the CPU nodes."""
    with Kubelets(cluster) as kubelets:
        for node in (*system_nodes(synthesised), *compile_nodes(synthesised)):
            kubelets.add(node)
        add_trainium(cluster, kubelets, synthesised, 0)
        yield kubelets
        if cluster.plane.lent:
            # They take part in it: pods end before a namespace does.
            cluster.kubectl("delete", f"namespace/{NAMESPACE}", "--ignore-not-found")
            cluster.kubectl("delete", "persistentvolume/article-models", "--ignore-not-found")
            kubelets.remove_all()


def add_trainium(
    cluster: Cluster, kubelets: Kubelets, synthesised: Synthesised, number: int
) -> str:
    """Adds a Trainium node with its devices; returns its name."""
    node = trainium_node(synthesised, number)
    name: str = node["metadata"]["name"]
    kubelets.add(node)
    cluster.create(resource_slice(name, synthesised.experiment.capacity.instance))
    return name


@pytest.fixture(scope="session")
def rendered(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Experiment], Manifests]:
    """Renders an experiment into a ``dist/`` of its own."""
    return lambda experiment: render(experiment, tmp_path_factory.mktemp("dist"))


@pytest.fixture(scope="session")
def manifests(article: Experiment, rendered: Callable[[Experiment], Manifests]) -> Manifests:
    """The article's."""
    return rendered(article)


@pytest.fixture(scope="module")
def deployment(cluster: Cluster, kubelets: Kubelets, manifests: Manifests) -> Iterator[Manifests]:
    """The article's manifests, applied; gone after the tests of a module."""
    assert kubelets
    with deployed(cluster, manifests):
        yield manifests
