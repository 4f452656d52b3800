"""The account: its services, what is to go wrong in it, and what must always hold of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from botocore.exceptions import ConnectionClosedError

from tests.deployment.fake_aws.clock import Clock
from tests.deployment.fake_aws.cloudformation import CloudFormation
from tests.deployment.fake_aws.eks import Eks, NodeGroup, Pace
from tests.deployment.fake_aws.machines import Machines
from tests.deployment.fake_aws.scheduler import Scheduler
from tests.deployment.fake_aws.service import Client

Lost = ConnectionClosedError
"""What a call raises whose answer does not arrive, whether or not it has taken effect."""


class FakeAws:
    """One account with one experiment. ``client`` and the clock's ``now`` and ``sleep`` are all
    that a command needs of it."""

    def __init__(self, experiment: str, limits: dict[str, float], slack: float) -> None:
        """``limits``: for how many seconds the nodes of each kind may stand; ``slack``: what their
        guard may be later."""
        self.clock, self.pace = Clock(), Pace()
        self.eks = Eks(self.clock, self.pace)
        self.scheduler = Scheduler(self.clock, self.eks)
        self.machines = Machines(self.clock, self.eks)
        self.cloudformation = CloudFormation(self.clock, self.eks, self.scheduler, experiment)
        self.boundary: Callable[[str], None] = lambda moment: None
        """Called before and after each call takes effect, and before each wait: ``before``,
        ``after`` or ``sleep``. What it raises, the command gets."""
        self._limits, self._slack = limits, slack
        self.clock.watch = self.check

    def client(self, service: str) -> Any:
        """A client as boto3's."""
        services = {
            "eks": self.eks,
            "scheduler": self.scheduler,
            "stepfunctions": self.machines,
            "cloudformation": self.cloudformation,
        }
        return Client(service, services[service], self.around)

    def sleep(self, seconds: float) -> None:
        """A command waits."""
        self.boundary("sleep")
        self.clock.advance(seconds)

    def check(self) -> None:
        """Raises AssertionError unless all nodes are guarded, and none is ended before its time.

        A group that has nodes, or was asked for some, has a schedule that will end it within its
        limit, or is being asked for 0.
        """
        assert not self.scheduler.strays
        for group in self.eks.groups.values():
            if group.has_or_awaits_nodes:
                latest, ends = self._latest(group), self.scheduler.ends(group.name)
                assert ends is not None, f"nothing will end {group}"
                assert ends <= latest, f"{group} is ended {(ends - latest) / 60:.1f} minutes late"

    def _latest(self, group: NodeGroup) -> float:
        """When it must be ended: counted from when nodes were asked for, or from the first."""
        since = max([group.asked_at, *group.nodes[:1]])
        return since + self._limits[group.name.rpartition("-")[0]] + self._slack

    def around(self, moment: str) -> None:
        self.check()
        self.boundary(moment)
        if moment == "before":
            self.clock.advance(self.pace.call)
