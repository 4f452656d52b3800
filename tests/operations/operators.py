"""Whoever calls ``deployment`` in the fake AWS, at one terminal or two: its commands are the real
ones, and the CDK's CLI is played."""

import base64
import contextlib
import functools
import io
import json
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pytest

from charts.names import bucket_name
from experiment import Experiment, load
from experiment.cost import compile_guard_hours, guard_hours
from experiment.schema import CompileNode, Compiling
from operations import __main__ as commands
from operations import cluster, guard, lifecycle, nodes, removal, results
from operations.account import Deployment, DeploymentError
from operations.nodes import Kind
from tests.experiment.files import REGION
from tests.operations.api import serving
from tests.operations.fake_aws import FakeAws
from tests.operations.fake_aws.cloudformation import Stack
from tests.operations.fake_aws.cluster import Cluster, Manifest
from tests.operations.fake_aws.eks import NodeGroup
from tests.operations.fake_aws.facts import ACCOUNT
from tests.operations.fake_aws.service import HOUR, MINUTE
from tests.run_make import ROOT

SLACK: Final = 45 * MINUTE
"""Who asks again while EKS still reports no nodes begins anew. A second terminal holds a command up
for so long: a stop waits 15 minutes for each group at most, and a deletion of the stack follows."""
STACKS: Final = (
    *("network", "model-store", "cluster", "trainium"),
    *("serving", "observability", "budget"),
)
"""In the order of a deploy."""
STAGES: Final = (
    *("preflight", "deploy", "objects", "download", "compile", "start"),
    *("serve", "benchmark", "stop", "results"),
)
_NODES: Final = "trainium"
_POLL: Final = 30.0
_LONGEST: Final = 24 * HOUR
"""All that a test does is over sooner."""


class Killed(BaseException):
    """The process of a command is no more: it neither cleans up nor says anything."""


class _Keyboard(io.StringIO):
    """Of a terminal if something is typed on it."""

    def __init__(self, typed: str | None) -> None:
        super().__init__(f"{typed}\n")
        self._is_terminal = typed is not None

    def isatty(self) -> bool:
        return self._is_terminal


@dataclass
class Operator:
    """An experiment in the fake AWS, and every command that was called there."""

    aws: FakeAws
    experiment: Experiment
    file: Path
    assembly: Path
    stacks: Sequence[str]
    """Labels of those that the app has."""
    cluster: Cluster | None = None
    generations: dict[str, int] = field(default_factory=lambda: {"trainium": 1, "compile": 1})
    executed: list[str] = field(default_factory=list)
    """Labels of stacks, each time that one was created or changed."""
    _clients: dict[tuple[str, str], Any] = field(default_factory=dict)
    _output: io.StringIO = field(default_factory=io.StringIO)
    _kill: tuple[str, int] | None = None
    _passed: int = 0
    _is_killed: bool = False
    _imports: bool = False
    """Whether the newest deploy takes back what an earlier one left."""

    @property
    def deployment(self) -> Deployment:
        experiment = self.experiment
        if "compile" not in self.generations:
            compiling = Compiling(node=CompileNode.TRAINIUM)
            experiment = experiment.model_copy(update={"compiling": compiling})
        return Deployment(experiment, str(self.file), ACCOUNT, self._clients)

    def group(self, kind: Kind) -> NodeGroup:
        return self.aws.eks.groups[f"{kind}-{self.generations[kind]}"]

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
            nodes.sleep(_POLL)

    def stop(self) -> None:
        for kind in Kind:
            guard.stop(self.deployment, kind)

    def deploy(self) -> None:
        lifecycle.deploy(self.deployment, [], yes=True)

    def destroy(self) -> None:
        removal.destroy(self.deployment, yes=True, keep="results", name=None)

    def command(
        self, action: Callable[[], None], mishaps: Mapping[int, Callable[[str], None]] = {}
    ) -> None:
        """One of them from its begin to its end, whatever the end is.

        ``mishaps``: what happens at a boundary, after so many others.
        """
        pending, before, passed = dict(mishaps), self.aws.boundary, -1

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

    @property
    def output(self) -> str:
        return self._output.getvalue()

    @property
    def stages(self) -> list[str]:
        lines = [line for line in self.output.splitlines() if line.startswith("[")]
        return [line.rpartition("] ")[2] for line in lines]

    def run(self, *words: str, typed: str | None = None) -> int:
        """Calls a command from its begin to its end; returns its exit status.

        ``typed``: on a terminal, on which this is typed.
        """
        self._output, self._passed, self._is_killed = io.StringIO(), 0, False
        with (
            pytest.MonkeyPatch.context() as patch,
            contextlib.redirect_stdout(self._output),
            contextlib.redirect_stderr(self._output),
        ):
            patch.setattr(sys, "argv", ["deployment", *words, "--experiment", str(self.file)])
            patch.setattr(sys, "stdin", _Keyboard(typed))
            return commands.main()

    def kill_in(self, stage: str, calls: int) -> bool:
        """Calls ``experiment`` and kills it so many calls into a stage, or at the stage's end.

        Returns whether it came to that: the stage may not be needed any more.
        """
        self._kill = (stage, calls)
        try:
            self.run("experiment", "--yes")
        except Killed:
            return True
        finally:
            self._kill, self._is_killed = None, False
        return False

    def boundary(self, _: str) -> None:
        """Called before and after each call, and before each wait. Raises Killed."""
        assert self.aws.clock.seconds < _LONGEST, self.output
        if self._kill and not self._is_killed:
            stage, calls = self._kill
            self._passed += stage in self.stages
            has_ended = stage in self.stages[:-1]
            self._is_killed = has_ended or self._passed >= calls
        if self._is_killed:
            raise Killed

    def cdk(self, words: Sequence[str], *, capture: bool) -> subprocess.CompletedProcess[str]:
        """In the place of the CDK's CLI, which waits for one stack after another."""
        status = 0
        if words[0] == "deploy":
            self._imports = "--import-existing-resources" in words
            status = self._each(self._deploy, self.stacks)
        elif words[0] == "destroy":
            status = self._each(self._destroy, self.stacks[::-1])
        return subprocess.CompletedProcess([*words], status, "", "")

    def _each(self, change: Callable[[str], None], stacks: Sequence[str]) -> int:
        for label in stacks:
            stack = self._stack(label)
            if stack and stack.status.endswith("_IN_PROGRESS"):
                return 1
            change(label)
            while (stack := self._stack(label)) and stack.status.endswith("_IN_PROGRESS"):
                nodes.sleep(_POLL)
            if stack and "ROLLBACK" in stack.status:
                return 1
        return 0

    def _stack(self, label: str) -> Stack | None:
        return self.aws.cloudformation.stacks.get(f"{self.experiment.name}-{label}")

    def _deploy(self, label: str) -> None:
        stack = self._stack(label)
        template = dict(self.generations)
        is_complete = stack and stack.status in ("CREATE_COMPLETE", "UPDATE_COMPLETE")
        if stack and is_complete and (label != _NODES or stack.template == template):
            return
        self.executed.append(label)
        if stack is None:
            text = (self.assembly / f"{self.experiment.name}-{label}.template.json").read_text()
            stack = self.aws.cloudformation.add(label, body=json.loads(text))
        if label == _NODES:
            self.aws.cloudformation.deploy(template)
        else:
            stack.status = "CREATE_IN_PROGRESS"
            self.aws.clock.after(MINUTE / 2, functools.partial(self._complete, label, stack))

    def _complete(self, label: str, stack: Stack) -> None:
        assert self.cluster
        if label == "model-store" and not self.cluster.make_bucket(self._imports):
            stack.status = "ROLLBACK_COMPLETE"
            return
        if label == "cluster":
            add_cluster(self.aws, self.experiment.name, stack)
        if label == "serving":
            resources = stack.body["Resources"].values()
            self.cluster.apply(json.loads(next(iter(resources))["Properties"]["Manifest"]))
        stack.status = "CREATE_COMPLETE"

    def _destroy(self, label: str) -> None:
        stack = self._stack(label)
        if stack and label == _NODES:
            self.aws.cloudformation.destroy()
        elif stack:
            del self.aws.cloudformation.stacks[stack.name]


def add_cluster(aws: FakeAws, name: str, stack: Stack) -> None:
    aws.facts.clusters[name] = {
        "name": name,
        "status": "ACTIVE",
        "endpoint": "https://cluster.example.com",
        "certificateAuthority": {"data": base64.b64encode(b"none").decode()},
        "resourcesVpcConfig": {"vpcId": "vpc-0a0a0a0a0a0a0a0a0"},
    }
    stack.outputs = {cluster.ADMINISTRATOR_OUTPUT: f"arn:aws:iam::{ACCOUNT}:role/administrator"}


def write_assembly(
    folder: Path, experiment: Experiment, stacks: Sequence[str], manifests: list[Manifest]
) -> None:
    """What synthesis would write, as far as commands read it."""
    applied = {
        "Type": "Custom::AWSCDK-EKS-KubernetesResource",
        "Properties": {"Manifest": json.dumps(manifests)},
    }
    store = {
        "Type": "AWS::S3::Bucket",
        "DeletionPolicy": "Retain",
        "Properties": {"BucketName": bucket_name(experiment, ACCOUNT)},
    }
    resources = {"serving": {"Everything": applied}, "model-store": {"Bucket": store}}
    artifacts: dict[str, dict[str, Any]] = {}
    for label in stacks:
        name = f"{experiment.name}-{label}"
        environment = f"aws://{ACCOUNT}/{REGION}"
        template = folder / f"{name}.template.json"
        template.write_text(json.dumps({"Resources": resources.get(label, {})}))
        artifacts[name] = {"type": "aws:cloudformation:stack", "environment": environment}
        artifacts[name] |= {"properties": {"templateFile": template.name}}
    text = json.dumps({"version": "38.0.0", "artifacts": artifacts})
    (folder / "manifest.json").write_text(text)


@contextlib.contextmanager
def _operating(
    file: Path, experiment: Experiment, assembly: Path, stacks: Sequence[str]
) -> Iterator[Operator]:
    # To estimate it takes milliseconds, and the guard asks often.
    compile_hours = compile_guard_hours(experiment)
    limits = {"trainium": guard_hours(experiment), "compile": compile_hours}
    aws = FakeAws(experiment.name, {kind: hours * HOUR for kind, hours in limits.items()}, SLACK)
    operator = Operator(aws, experiment, file, assembly, stacks)
    with pytest.MonkeyPatch.context() as patch:
        aws.take_the_place(patch)
        patch.setattr(guard, "compile_guard_hours", lambda _: compile_hours)
        patch.setattr(lifecycle, "notes", lambda _: ())
        patch.setattr(lifecycle, "run", operator.cdk)
        patch.setattr(lifecycle, "assembly", lambda _: assembly)
        yield operator


@functools.cache
def _nodes_alone() -> tuple[Experiment, Path, tempfile.TemporaryDirectory[str]]:
    file = ROOT / "experiments" / "article.yaml"
    folder, article = tempfile.TemporaryDirectory(), load(file)
    # Otherwise the limit would depend on which nodes compile.
    capacity = article.capacity.model_copy(update={"max_hours": 4.0})
    experiment = article.model_copy(update={"capacity": capacity})
    write_assembly(Path(folder.name), experiment, [_NODES], [])
    return experiment, file, folder


@contextlib.contextmanager
def node_operator() -> Iterator[Operator]:
    """With the stack of the node groups alone, deployed, and without nodes."""
    experiment, file, folder = _nodes_alone()
    with _operating(file, experiment, Path(folder.name), [_NODES]) as operator:
        operator.deploy()
        operator.aws.clock.advance(5 * MINUTE)
        yield operator


@contextlib.contextmanager
def experiment_operator(folder: Path, file: Path, manifests: list[Manifest]) -> Iterator[Operator]:
    experiment, assembly = load(str(file)), folder / "cdk.out"
    assembly.mkdir()
    write_assembly(assembly, experiment, STACKS, manifests)
    with (
        _operating(file, experiment, assembly, STACKS) as operator,
        serving() as objects,
        pytest.MonkeyPatch.context() as patch,
    ):
        aws = operator.aws
        aws.pace.capacity, aws.pace.drain = MINUTE, MINUTE
        aws.boundary = operator.boundary
        operator.cluster = Cluster(aws, objects, experiment, bucket_name(experiment, ACCOUNT))

        def token(deployment: Deployment, role: str) -> str:
            deployment.client("sts").assume_role(RoleArn=role, RoleSessionName="experiment")
            return "a-token"

        patch.chdir(folder)
        patch.setenv("PATH", f"{ROOT}/node_modules/.bin:/usr/bin:/bin")
        patch.setenv(cluster.ADDRESS_VARIABLE, objects.url)
        patch.setattr(cluster, "token", token)
        patch.setattr(results, "draw", lambda folder: f"the table of {folder}")
        patch.setattr(time, "sleep", aws.sleep)
        patch.setattr(signal, "signal", lambda *_: None)
        yield operator
