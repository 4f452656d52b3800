"""An embedded AWS and a control plane that know of each other, as EKS's do."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from control_plane.servers import ControlPlane, control_plane, kubeconfig_of
from experiment import Experiment
from rehearsal.aws.client import Aws, embedded_aws
from rehearsal.aws.mended.clusters import KUBECONFIG
from rehearsal.aws.mended.functions import KUBECTL
from rehearsal.aws.own_calls import AUTHENTICATE
from stacks.addons import VERSIONS


@contextlib.contextmanager
def account(
    experiment: Experiment, programs: Path, folder: Path
) -> Iterator[tuple[Aws, ControlPlane]]:
    """An account without stacks, and the API server of the cluster that it will have.

    AWS makes the cluster's objects with the administrator's kubeconfig; the API server asks AWS
    whose a token is. Raises ControlPlaneError or ProcessError.
    """
    directory = folder / "control-plane"
    variables = {
        KUBECONFIG: str(kubeconfig_of(directory)),
        KUBECTL: str(programs / "kubectl"),
    }
    with embedded_aws(experiment.aws.region, folder / "aws.log", variables) as aws:
        # Which versions EKS offers, nobody makes by a call.
        aws.know(addons={name: [version] for name, version in VERSIONS.items()})
        authenticator = f"{aws.url}{AUTHENTICATE}{experiment.name}"
        with control_plane(programs, directory, authenticator) as plane:
            yield aws, plane
