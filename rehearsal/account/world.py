"""An account with its cluster on this machine, alive: nodes come and go, and pods are played."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from control_plane.programs import programs
from control_plane.servers import ControlPlane
from experiment import Experiment
from rehearsal.account.eventbridge import OneTimeSchedules
from rehearsal.account.groups import Groups
from rehearsal.account.hub import Hub
from rehearsal.account.joined import account
from rehearsal.account.roles.around import Around
from rehearsal.account.roles.preparation import checkpoints
from rehearsal.account.roles.table import Roles
from rehearsal.aws.client import Aws
from rehearsal.cluster import hardware
from rehearsal.cluster.api import Api
from rehearsal.cluster.kubelet import Kubelets
from rehearsal.golden.endpoints import SPEED, golden_servers

STANDS_IN = (
    "AWS: an embedded one (moto and what it lacks), whose CloudFormation makes all stacks",
    "Kubernetes: the real API server, controller manager and scheduler",
    "EventBridge Scheduler: schedules that act once do so at once, and the others never",
    "nodes: follow the node groups' sizes; nobody boots, so that takes no time",
    "kubelets: run programs of this machine in the containers' places",
    "pods' scripts: as they are, with the real AWS CLI",
    "checkpoints and graphs: files of a few bytes; the compiler takes three seconds",
    f"vLLM: golden endpoints at {SPEED} times the article's speed",
    "the benchmark: itself, with the built-in load in place of llmperf",
)
"""What is in the place of what, a line each."""


@dataclass(frozen=True)
class World:
    """What runs. ``environment`` leads programs to it, and to no other account."""

    experiment: Experiment
    aws: Aws
    plane: ControlPlane
    api: Api
    kubelets: Kubelets
    groups: Groups
    schedules: OneTimeSchedules
    held: set[str]
    """Names of containers that do not start while they are in it."""

    def check(self) -> None:
        """Raises what keeps a part of it from working, if anything does."""
        self.plane.check()
        self.kubelets.check()
        self.groups.check()
        self.schedules.check()

    @property
    def environment(self) -> Mapping[str, str]:
        """Of programs that act on the account."""
        return self.aws.environment


@contextlib.contextmanager
def world(experiment: Experiment, root: Path, folder: Path) -> Iterator[World]:
    """Starts all of it, and ends all of it. ``folder`` takes what it writes.

    ``root`` is the checkout. Raises ControlPlaneError or ProcessError.
    """
    with contextlib.ExitStack() as stack:
        aws, plane = stack.enter_context(account(experiment, programs(os.environ), folder))
        api = Api(plane.kubeconfig, folder)
        # Of the Helm chart and the add-on, whose own pods would be on the nodes.
        for manifest in (hardware.device_class(), hardware.csi_driver()):
            api.create(manifest)
        hub = stack.enter_context(Hub(checkpoints(experiment)))
        outside = {**aws.environment, "PYTHONPATH": str(root)}
        servers = golden_servers(experiment, SPEED, outside, folder / "logs")
        around = Around(experiment, aws.account, aws.environment, servers, hub.url, root, api)
        roles = Roles(around)
        kubelets = stack.enter_context(Kubelets(api, roles, folder / "pods"))
        groups = stack.enter_context(Groups(experiment, aws, api, kubelets.nodes))
        schedules = stack.enter_context(OneTimeSchedules(aws))
        yield World(experiment, aws, plane, api, kubelets, groups, schedules, roles.held)
