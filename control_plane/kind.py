"""A kind cluster instead of programs of our own, for who names one; never any other cluster.

Nodes, a namespace and device classes are made in it and removed. So it must be plain that nobody
else lives there: kind's own name for the context, an address on loopback, the version that counts.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from control_plane.programs import kubernetes_version
from control_plane.servers import ControlPlane
from rehearsal.errors import RehearsalError
from rehearsal.process.processes import reason

_CONTEXT: Final = "kind-"
_LOOPBACK: Final = ("127.0.0.1", "::1", "localhost")
_TIMEOUT_SECONDS: Final = 20.0


def kind_cluster(environment: Mapping[str, str]) -> ControlPlane:
    """The cluster of ``KUBECONFIG``'s current context. Raises RehearsalError if it is not kind's.

    It is asked about its version, and nothing is written.
    """
    kubectl = shutil.which("kubectl", path=environment.get("PATH"))
    if kubectl is None:
        raise RehearsalError("KUBECONFIG: there is no kubectl on the PATH")
    config = _asked(kubectl, environment, "config", "view", "--minify")
    context, server = config["current-context"], config["clusters"][0]["cluster"]["server"]
    if not context.startswith(_CONTEXT):
        raise RehearsalError(
            f"KUBECONFIG: context {context} is not of a kind cluster, whose names begin with "
            f"{_CONTEXT}; unset KUBECONFIG for a control plane of the tests' own"
        )
    if urlsplit(server).hostname not in _LOOPBACK:
        raise RehearsalError(f"KUBECONFIG: context {context} is at {server}; must be on loopback")
    version = _asked(kubectl, environment, "version")["serverVersion"]["gitVersion"]
    minor = kubernetes_version().rpartition(".")[0]
    if not version.startswith(f"v{minor}."):
        raise RehearsalError(f"KUBECONFIG: context {context} is {version}; must be v{minor}")
    return ControlPlane(Path(kubectl), Path(environment["KUBECONFIG"]), {})


def _asked(kubectl: str, environment: Mapping[str, str], *question: str) -> Any:
    done = subprocess.run(
        [kubectl, *question, "--output", "json"],
        env=dict(environment),
        capture_output=True,
        text=True,
        timeout=_TIMEOUT_SECONDS,
        check=False,
    )
    if done.returncode != 0:
        raise RehearsalError(f"KUBECONFIG: {reason(done.stderr)}")
    return json.loads(done.stdout)
