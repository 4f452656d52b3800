"""Which control plane: that of a kind cluster if one is named, or programs of our own."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path

from control_plane.kind import kind_cluster
from control_plane.programs import programs
from control_plane.servers import ControlPlane, control_plane


def prepare(environment: Mapping[str, str]) -> None:
    """All that can be done, or found to be wrong, before it starts. Raises RehearsalError."""
    if environment.get("KUBECONFIG"):
        kind_cluster(environment)
    else:
        programs(environment)


@contextlib.contextmanager
def chosen(environment: Mapping[str, str], directory: Path) -> Iterator[ControlPlane]:
    """A control plane; its certificates, data and logs lie in ``directory``.

    Raises RehearsalError, of which NoPrograms says that there is none to be had.
    """
    if environment.get("KUBECONFIG"):
        yield kind_cluster(environment)
    else:
        with control_plane(programs(environment), directory) as plane:
            yield plane
