"""Whoever calls ``deployment`` in an account with every stack of an experiment and its cluster."""

from __future__ import annotations

import base64
import contextlib
import functools
import io
import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pytest

from charts.names import bucket_name
from deployment import __main__ as commands
from deployment import account, clock, cluster, lifecycle, removal, results
from experiment import load
from experiment.cost import compile_guard_hours, guard_hours
from tests.deployment.api import serving
from tests.deployment.fake_aws.account import FakeAws
from tests.deployment.fake_aws.clock import HOUR, MINUTE
from tests.deployment.fake_aws.cloudformation import Stack, Template
from tests.deployment.fake_aws.cluster import Cluster, Manifest
from tests.deployment.fake_aws.facts import ACCOUNT, REGION
from tests.made import ROOT

SLACK: Final = 45 * MINUTE
STACKS: Final = (
    *("network", "model-store", "cluster", "trainium"),
    *("serving", "observability", "budget"),
)
"""In the order of a deploy."""
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
        """Whether anybody is there."""
        return self._is_terminal


@dataclass
class Terminal:
    """An account, and every command that was called in it."""

    aws: FakeAws
    cluster: Cluster
    file: Path
    assembly: Path
    executed: list[str] = field(default_factory=list)
    """Labels of stacks, each time that one was created or changed."""
    _output: io.StringIO = field(default_factory=io.StringIO)
    _kill: tuple[str, int] | None = None
    _passed: int = 0
    _is_killed: bool = False
    _imports: bool = False
    """Whether the newest deploy takes back what an earlier one left."""

    @property
    def output(self) -> str:
        """What the newest command has printed."""
        return self._output.getvalue()

    @property
    def stages(self) -> list[str]:
        """Those that the newest command has begun."""
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

    def sleep(self, seconds: float) -> None:
        """A command waits, or somebody does who calls none."""
        assert self.aws.clock.seconds < _LONGEST, self.output
        self.aws.sleep(seconds)

    def boundary(self, _: str) -> None:
        """Called before and after each call, and before each wait. Raises Killed."""
        if self._is_killed:
            raise Killed
        if self._kill is None:
            return
        stage, calls = self._kill
        begun = self.stages
        if stage in begun:
            self._passed += 1
            if begun[-1] != stage or self._passed >= calls:
                self._is_killed = True
                raise Killed

    def cdk(self, words: Sequence[str], *, capture: bool) -> subprocess.CompletedProcess[str]:
        """In the place of the CDK's CLI, which waits for one stack after another."""
        command, status = words[0], 0
        if command == "deploy":
            retained = frozenset(
                kind
                for kind, name in (("trainium", "Trainium"), ("compile", "Compile"))
                if any(word.endswith(f":Keep{name}Nodes=true") for word in words)
            )
            self._imports = "--import-existing-resources" in words
            status = self._all(lambda label: self._deploy(label, retained), STACKS)
        elif command == "destroy":
            status = self._all(self._destroy, STACKS[::-1])
        return subprocess.CompletedProcess([*words], status, "", "")

    def _all(self, change: Callable[[str], None], stacks: tuple[str, ...]) -> int:
        for label in stacks:
            change(label)
            while (stack := self._stack(label)) and stack.status.endswith("_IN_PROGRESS"):
                clock.sleep(_POLL)
            if stack and "ROLLBACK" in stack.status:
                return 1
        return 0

    def _stack(self, label: str) -> Stack | None:
        return self.aws.cloudformation.stacks.get(f"{self.cluster.experiment.name}-{label}")

    def _deploy(self, label: str, retained: frozenset[str]) -> None:
        name, stack = f"{self.cluster.experiment.name}-{label}", self._stack(label)
        body = json.loads((self.assembly / f"{name}.template.json").read_text())
        if stack and stack.body == body and stack.status.endswith("_COMPLETE"):
            return
        self.executed.append(label)
        if stack is None:
            region = "us-east-1" if label == "budget" else REGION
            stack = self.aws.cloudformation.add(label, region=region, body=body)
        if label == _NODES:
            self.aws.cloudformation.deploy(
                Template({"trainium": 1, "compile": 1}, retained=retained)
            )
        else:
            stack.status = "CREATE_IN_PROGRESS"
            self.aws.clock.after(MINUTE / 2, functools.partial(self._complete, label, stack))

    def _complete(self, label: str, stack: Stack) -> None:
        if label == "model-store" and not self.cluster.make_bucket(self._imports):
            stack.status = "ROLLBACK_COMPLETE"
            return
        experiment = self.cluster.experiment
        if label == "cluster":
            add_cluster(self.aws, experiment.name)
            stack.outputs = {
                cluster.ADMINISTRATOR_OUTPUT: f"arn:aws:iam::{ACCOUNT}:role/administrator"
            }
        if label == "serving":
            resources = stack.body["Resources"].values()
            self.cluster.apply(json.loads(next(iter(resources))["Properties"]["Manifest"]))
        stack.status = "CREATE_COMPLETE"

    def _destroy(self, label: str) -> None:
        stack = self._stack(label)
        if stack is None:
            return
        if label == _NODES:
            self.aws.cloudformation.destroy()
            while self.aws.cloudformation.stack:
                clock.sleep(_POLL)
        else:
            del self.aws.cloudformation.stacks[stack.name]


def add_cluster(aws: FakeAws, name: str, owner: str | None = None) -> None:
    """The cluster of an experiment."""
    aws.facts.clusters[name] = {
        "name": name,
        "status": "ACTIVE",
        "endpoint": "https://cluster.example.com",
        "certificateAuthority": {"data": base64.b64encode(b"none").decode()},
        "tags": {"Experiment": owner or name},
    }


def write_assembly(folder: Path, name: str, bucket: str, manifests: list[Manifest]) -> None:
    """What synthesis would write, as far as commands read it."""
    applied = {
        "Type": "Custom::AWSCDK-EKS-KubernetesResource",
        "Properties": {"Manifest": json.dumps(manifests)},
    }
    store = {
        "Type": "AWS::S3::Bucket",
        "DeletionPolicy": "Retain",
        "Properties": {"BucketName": bucket},
    }
    resources = {"serving": {"Everything": applied}, "model-store": {"Bucket": store}}
    artifacts = {}
    for label in STACKS:
        region = "us-east-1" if label == "budget" else REGION
        environment = f"aws://{ACCOUNT}/{region}"
        artifacts[f"{name}-{label}"] = {
            "type": "aws:cloudformation:stack",
            "environment": environment,
        }
        template = {"Resources": resources.get(label, {})}
        (folder / f"{name}-{label}.template.json").write_text(json.dumps(template))
    (folder / "manifest.json").write_text(json.dumps({"artifacts": artifacts}))


@contextlib.contextmanager
def terminal(folder: Path, file: Path, manifests: list[Manifest]) -> Iterator[Terminal]:
    """In an account that is bootstrapped, and has nothing of the experiment of ``file``."""
    experiment, assembly = load(str(file)), folder / "cdk.out"
    bucket = bucket_name(experiment, ACCOUNT)
    assembly.mkdir()
    write_assembly(assembly, experiment.name, bucket, manifests)
    limits = {
        "trainium": guard_hours(experiment) * HOUR,
        "compile": compile_guard_hours(experiment) * HOUR,
    }
    aws = FakeAws(experiment.name, limits, SLACK)
    aws.pace.capacity, aws.pace.drain = MINUTE, MINUTE
    with pytest.MonkeyPatch.context() as patch, serving() as objects:
        patch.chdir(folder)
        patch.setenv("PATH", f"{ROOT}/node_modules/.bin:/usr/bin:/bin")
        patch.setenv(cluster.ADDRESS_VARIABLE, objects.url)
        person = Terminal(aws, Cluster(aws, objects, experiment, bucket), file, assembly)
        aws.boundary = person.boundary

        def token(deployment: Any, role: str) -> str:
            deployment.client("sts").assume_role(RoleArn=role, RoleSessionName="experiment")
            return "a-token"

        patch.setattr(account, "client", aws.client)
        patch.setattr(cluster, "token", token)
        patch.setattr(lifecycle, "run", person.cdk)
        patch.setattr(results, "draw", lambda folder: f"the table of {folder}")
        patch.setattr(clock, "now", aws.clock.now)
        patch.setattr(clock, "sleep", person.sleep)
        patch.setattr(time, "sleep", person.sleep)
        patch.setattr(signal, "signal", lambda *_: None)
        for module in (lifecycle, removal):
            patch.setattr(module, "ASSEMBLY", assembly)
        for function in (lifecycle.synthesised, lifecycle.assembled):
            patch.setattr(function, "__defaults__", (assembly,))
        yield person
