"""People who start and stop nodes, deploy and destroy in the fake AWS, at one terminal or two."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pytest

from deployment import clock, guard, lifecycle, nodes, proof, removal
from deployment.account import Deployment, DeploymentError
from deployment.nodes import Kind
from experiment import Experiment, load
from experiment.cost import compile_guard_hours, guard_hours
from experiment.schema import CompileNode, Compiling
from tests.deployment.fake_aws import HOUR, MINUTE, FakeAws, Lost
from tests.deployment.fake_aws.cloudformation import Template
from tests.deployment.fake_aws.eks import NodeGroup
from tests.deployment.fake_aws.service import refused

_FILE: Final = Path(__file__).parents[2] / "experiments" / "article.yaml"
_POLL: Final = 30.0
SLACK: Final = 45 * MINUTE
"""Who asks again while EKS still reports no nodes begins anew. A second terminal holds a command up
for so long: a stop waits 15 minutes for each group at most, and a deletion of the stack follows."""


@functools.cache
def _experiment(node: CompileNode) -> Experiment:
    article = load(str(_FILE))
    capacity = article.capacity.model_copy(update={"max_hours": 4.0})
    return article.model_copy(update={"capacity": capacity, "compiling": Compiling(node=node)})


_hours: Final = functools.cache(lambda: compile_guard_hours(_experiment(CompileNode.CPU)))


@dataclass
class Mishap:
    """What goes wrong at one boundary of a command: before or after a call, or before a wait."""

    at: int
    """After so many others."""
    action: Callable[[str], None]


def interrupt(_: str) -> None:
    """Ctrl-C."""
    raise KeyboardInterrupt


def lose(moment: str) -> None:
    """A call, or its answer."""
    if moment != "sleep":
        raise Lost(endpoint_url="https://aws")


def throttle(moment: str) -> None:
    """Too many calls."""
    if moment == "before":
        raise refused("ThrottlingException", "Rate exceeded")


@dataclass
class Office:
    """An experiment in the fake AWS, and what commands do to it."""

    aws: FakeAws
    generations: dict[str, int] = field(default_factory=lambda: {"trainium": 1, "compile": 1})
    maximum: int = 4
    _clients: dict[tuple[str, str], object] = field(default_factory=dict)

    @property
    def deployment(self) -> Deployment:
        """Of the experiment as its file is now."""
        node = CompileNode.CPU if "compile" in self.generations else CompileNode.TRAINIUM
        experiment = _experiment(node)
        return Deployment(experiment, "article.yaml", "123456789012", self._clients)

    def group(self, kind: Kind) -> NodeGroup:
        """As it is, whatever EKS reports."""
        return self.aws.eks.groups[f"{kind}-{self.generations[kind]}"]

    def stack(self, region: str) -> lifecycle.Stack:
        """As CloudFormation has it."""
        stack = self.aws.cloudformation.stack
        status = stack.status if stack else None
        return lifecycle.Stack(f"{self.deployment.name}-trainium", region, status)

    def prove(self) -> None:
        """As a stage does it, for groups without nodes."""
        deployment = self.deployment
        groups = [
            group
            for group in nodes.groups(deployment)
            if not group.size and not guard.find(deployment, group.kind)
        ]
        proof.prove(deployment, groups, lambda _: None)

    def start(self, kind: Kind, waits: float = 0.0) -> None:
        """As the stages do it: with the guard, and then waiting for the first node."""
        guard.start(self.deployment, kind, 1)
        for _ in range(int(waits / _POLL)):
            group = nodes.find(self.deployment, kind)
            if group is None or not group.size:
                return
            actual = self.aws.eks.groups.get(group.name)  # unless it went with the answer
            if actual and actual.nodes:
                if kind is Kind.TRAINIUM:
                    guard.count_from(self.deployment, kind, self.aws.clock.moment(actual.nodes[0]))
                return
            clock.sleep(_POLL)

    def stop(self) -> None:
        """``make stop``."""
        for kind in Kind:
            guard.stop(self.deployment, kind)

    def deploy(self) -> None:
        """``make deploy``."""
        lifecycle.deploy(self.deployment, [], yes=True)

    def destroy(self) -> None:
        """``make destroy YES=1``."""
        removal.destroy(self.deployment, yes=True, keep="results", name=None)

    def command(self, action: Callable[[], None], mishaps: Sequence[Mishap] = ()) -> None:
        """One of them from its begin to its end, whatever the end is."""
        pending = {mishap.at: mishap.action for mishap in mishaps}
        before, passed = self.aws.boundary, -1

        def boundary(moment: str) -> None:
            nonlocal passed
            passed += 1
            if mishap := pending.pop(passed, None):
                mishap(moment)

        self.aws.boundary = boundary
        try:
            action()
        except (DeploymentError, KeyboardInterrupt):
            pass
        finally:
            self.aws.boundary = before
        self.aws.check()

    def cdk(self, *arguments: str) -> int:
        """In the place of the CDK's CLI, which waits for CloudFormation."""
        stacks = self.aws.cloudformation
        if stacks.is_busy or (arguments[0] == "destroy" and not stacks.stack):
            return 1
        if arguments[0] == "deploy":
            parameters = [word.rpartition(":")[2] for word in arguments if ":Keep" in word]
            retained = {word.removesuffix("=true") for word in parameters if word.endswith("=true")}
            kinds = {"KeepTrainiumNodes": "trainium", "KeepCompileNodes": "compile"}
            names = {kinds[name] for name in retained}
            stacks.deploy(Template(dict(self.generations), self.maximum, frozenset(names)))
        else:
            stacks.destroy()
        while stacks.is_busy:
            clock.sleep(_POLL)
        return int(bool(stacks.stack and "ROLLBACK" in stacks.stack.status))


@contextmanager
def deployed_office() -> Iterator[Office]:
    """Deployed, without nodes."""
    with pytest.MonkeyPatch.context() as patch:
        article = _experiment(CompileNode.CPU)
        limits = {"trainium": guard_hours(article) * HOUR, "compile": _hours() * HOUR}
        aws = FakeAws(article.name, limits, SLACK)
        region, services = article.aws.region, ("eks", "scheduler", "stepfunctions")
        clients = {(name, region): aws.client(name) for name in (*services, "cloudformation")}
        office = Office(aws, _clients=clients)
        patch.setattr(clock, "now", aws.clock.now)
        patch.setattr(clock, "sleep", aws.sleep)
        patch.setattr(guard, "compile_guard_hours", lambda _: _hours())
        patch.setattr(lifecycle, "cdk", office.cdk)
        patch.setattr(lifecycle, "notes", lambda _: ())
        patch.setattr(lifecycle, "say", lambda _: None)
        patch.setattr(removal, "say", lambda _: None)
        name = f"{article.name}-trainium"
        existing = [{"StackName": name}]
        patch.setattr(lifecycle, "existing", lambda _: existing if aws.cloudformation.stack else [])
        patch.setattr(lifecycle, "synthesised", lambda _: [office.stack(region)])
        patch.setattr(removal, "retained", lambda *_: [])
        patch.setattr(removal, "images", lambda *_: [])
        office.deploy()
        aws.clock.advance(5 * MINUTE)
        yield office
