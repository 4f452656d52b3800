"""A small AWS that takes its time: EKS, Auto Scaling, Step Functions and CloudFormation.

In memory, at the boundary of boto3's clients, with one clock that moves only when somebody waits or
calls. It does late what AWS does late, refuses what AWS refuses, and fails where it is told to.
"""

import threading
from collections.abc import Callable
from typing import Any, Final

import pytest
from botocore.exceptions import ClientError, ConnectionClosedError

from operations import account, nodes
from tests.experiment.files import REGION
from tests.operations.fake_aws.cloudformation import CloudFormation
from tests.operations.fake_aws.eks import Eks, Machines, NodeGroup, Pace
from tests.operations.fake_aws.facts import ACCOUNT, Facts, Store
from tests.operations.fake_aws.scaling import AutoScaling
from tests.operations.fake_aws.service import HOUR, MINUTE, Answer, Client, Clock, refused

__all__ = ["ACCOUNT", "HOUR", "MINUTE", "REGION", "FakeAws", "Lost", "action"]

Lost = ConnectionClosedError
"""What a call raises whose answer does not arrive, whether or not it has taken effect."""

_ACTIONS: Final = {
    "s3:HeadObject": "s3:GetObject",
    "s3:ListObjectVersions": "s3:ListBucketVersions",
    "s3:ListObjectsV2": "s3:ListBucket",
}
"""Calls that IAM knows by another name (Service Authorization Reference)."""


def action(call: str) -> str:
    """What IAM calls the right to a call, e.g. ``s3:GetObject`` for ``s3:HeadObject``."""
    renamed = _ACTIONS.get(call, call).replace("service-quotas:", "servicequotas:")
    return renamed.replace("stepfunctions:", "states:")


class FakeAws:
    def __init__(
        self, experiment: str, limits: dict[str, float] | None = None, slack: float = 0.0
    ) -> None:
        """``limits``: for how many seconds the nodes of each kind may stand; ``slack``: what their
        guard may be later. Without limits nothing is held against them."""
        self.clock, self.pace = Clock(), Pace()
        self.eks = Eks(self.clock, self.pace)
        self.facts, self.store = Facts(), Store(self.clock.now)
        self.scaling = AutoScaling(self.clock, self.pace, self.eks, self.facts)
        self.machines = Machines(self.clock, self.eks)
        self.cloudformation = CloudFormation(self.clock, self.eks, experiment)
        self.calls: list[str] = []
        """What commands asked for, such as ``eks:DescribeCluster``."""
        self.requests: list[Answer] = []
        """With what, call by call."""
        self.denied: set[str] = set()
        """Calls that IAM refuses."""
        self.boundary: Callable[[str], None] = lambda moment: None
        """Called before and after each call takes effect, and before each wait: ``before``,
        ``after`` or ``sleep``. What it raises, the command gets."""
        self._limits, self._slack = limits, slack
        self._lock = threading.RLock()
        self.clock.watch = self.check

    def take_the_place(self, patch: pytest.MonkeyPatch) -> None:
        """Of AWS, and of time, for whatever command is called."""
        patch.setattr(account, "client", self.client)
        patch.setattr(nodes, "now", self.clock.now)
        patch.setattr(nodes, "sleep", self.sleep)

    def client(self, service: str, region: str = REGION) -> Any:
        parts: dict[str, tuple[object, ...]] = {
            "eks": (self.eks, self.facts),
            "autoscaling": (self.scaling, self.facts),
            "stepfunctions": (self.machines,),
            "cloudformation": (self.cloudformation,),
            "s3": (self.store, self.facts),
        }
        return Client(service, region, parts.get(service, (self.facts,)), self._called)

    def sleep(self, seconds: float) -> None:
        with self._lock:
            self.boundary("sleep")
            self.clock.advance(seconds)

    def check(self) -> None:
        """Raises AssertionError unless all nodes are guarded, and none is ended before its time.

        A group that has nodes, or was asked for some, has a schedule that will end it within its
        limit, or is being asked for 0.
        """
        if self._limits is None:
            return
        assert not self.scaling.strays
        for group in self.eks.groups.values():
            if group.has_or_awaits_nodes:
                latest, ends = self._latest(group, self._limits), self.scaling.ends(group)
                assert ends is not None, f"nothing will end {group}"
                # Beyond its limit a group may only be one that its schedule asks for 0 by now.
                late = f"{group} is ended {(ends - latest) / 60:.1f} minutes late"
                assert ends <= max(latest, self.clock.seconds), late

    def _latest(self, group: NodeGroup, limits: dict[str, float]) -> float:
        """When it must be ended: counted from when nodes were asked for, or from the first."""
        since = max([group.asked_at, *group.nodes[:1]])
        return since + limits[group.name.rpartition("-")[0]] + self._slack

    def _called(self, name: str, request: Answer, take_effect: Callable[[], Any]) -> Any:
        with self._lock:
            self.calls.append(name)
            self.requests.append(request)
            self._pass("before")
            if name in self.denied:
                raise _denial(name)
            answer = take_effect()
            self._pass("after")
            return answer

    def _pass(self, moment: str) -> None:
        self.check()
        self.boundary(moment)
        if moment == "before":
            self.clock.advance(self.pace.call)


def _denial(call: str) -> ClientError:
    """In the words of IAM."""
    code = "UnauthorizedOperation" if call.startswith("ec2:") else "AccessDeniedException"
    message = (
        f"User: arn:aws:iam::{ACCOUNT}:user/person is not authorized to perform: "
        f"{action(call)} because no identity-based policy allows the action"
    )
    return refused(code, message, call.partition(":")[2])
