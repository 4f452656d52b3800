"""Which control plane: the kind cluster that ``KUBECONFIG`` names, or programs of our own.

The tests create and remove nodes, a namespace and device classes. So a cluster must be a throwaway:
its context has a name that kind gives, its address is on loopback, its version is the one under
test.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from rehearsal.processes import reason
from tests.control_plane.programs import ControlPlaneError, kubernetes_version, programs
from tests.control_plane.servers import ControlPlane, control_plane

_CONTEXT: Final = "kind-"
_LOOPBACK: Final = ("127.0.0.1", "::1", "localhost")
_TIMEOUT_SECONDS: Final = 20.0


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


def kind_cluster(environment: Mapping[str, str]) -> ControlPlane:
    """The cluster of ``KUBECONFIG``'s current context. This only reads its version.

    Raises ControlPlaneError if it is not kind's.
    """
    kubectl = shutil.which("kubectl", path=environment.get("PATH"))
    if kubectl is None:
        raise ControlPlaneError("KUBECONFIG: there is no kubectl on the PATH")
    config = _kubectl(kubectl, environment, "config", "view", "--minify")
    context, server = config["current-context"], config["clusters"][0]["cluster"]["server"]
    if not context.startswith(_CONTEXT):
        raise ControlPlaneError(
            f"KUBECONFIG: context {context} is not a kind cluster's, whose names begin with "
            f"{_CONTEXT}; unset KUBECONFIG to let the tests start their own control plane"
        )
    if urlsplit(server).hostname not in _LOOPBACK:
        raise ControlPlaneError(
            f"KUBECONFIG: context {context} is at {server}; must be on loopback"
        )
    version = _kubectl(kubectl, environment, "version")["serverVersion"]["gitVersion"]
    minor = kubernetes_version().rpartition(".")[0]
    if not version.startswith(f"v{minor}."):
        raise ControlPlaneError(f"KUBECONFIG: context {context} is {version}; must be v{minor}")
    return ControlPlane(Path(kubectl), Path(environment["KUBECONFIG"]), {})


def _kubectl(kubectl: str, environment: Mapping[str, str], *question: str) -> Any:
    completed = subprocess.run(
        [kubectl, *question, "--output", "json"],
        env=dict(environment),
        capture_output=True,
        text=True,
        timeout=_TIMEOUT_SECONDS,
        check=False,
    )
    if completed.returncode != 0:
        raise ControlPlaneError(f"KUBECONFIG: {reason(completed.stderr)}")
    return json.loads(completed.stdout)
