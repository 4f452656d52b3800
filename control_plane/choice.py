"""Which control plane: the kind cluster that ``KUBECONFIG`` names, or programs of our own."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path

from control_plane.kind import kind_cluster
from control_plane.programs import programs
from control_plane.servers import ControlPlane, control_plane


def prepare(environment: Mapping[str, str]) -> None:
    """Checks the kind cluster, or builds the programs. Raises ControlPlaneError."""
    if environment.get("KUBECONFIG"):
        kind_cluster(environment)
    else:
        programs(environment)


@contextlib.contextmanager
def chosen(environment: Mapping[str, str], directory: Path) -> Iterator[ControlPlane]:
    """A running control plane. ``directory`` takes its certificates, data and logs.

    Raises ControlPlaneError; its subclass NoPrograms means that there is nothing to run.
    """
    if environment.get("KUBECONFIG"):
        yield kind_cluster(environment)
    else:
        with control_plane(programs(environment), directory) as plane:
            yield plane
