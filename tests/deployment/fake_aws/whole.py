"""The whole account: every stack of an experiment, its cluster, and whoever calls ``deployment``.

What takes its time or refuses is ``FakeAws``'s; what only answers is moto's, in this process. Both
are behind botocore's own clients, so that each call is seen, and may be the last of a command.
"""

from __future__ import annotations

import base64
import contextlib
import functools
import io
import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import aws_cdk as cdk
import boto3
import botocore.client
import botocore.session
import pytest
from botocore import xform_name
from botocore.validate import validate_parameters
from moto import mock_aws

from app import compose
from charts.names import bucket_name
from deployment import __main__ as commands
from deployment import clock, cluster, lifecycle, removal
from experiment import load
from experiment.cost import compile_guard_hours, guard_hours
from stacks.addons import VERSIONS
from tests.aws.facts import Facts
from tests.deployment.api import serving
from tests.deployment.fake_aws.account import FakeAws
from tests.deployment.fake_aws.clock import HOUR, MINUTE
from tests.deployment.fake_aws.cloudformation import Template
from tests.deployment.fake_aws.cluster import Cluster
from tests.deployment.fake_aws.service import refused
from tests.synthesis import CONTEXT, ROOT

ACCOUNT: Final = "123456789012"
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
_STACK_SECONDS: Final = MINUTE / 2


class Killed(BaseException):
    """The process of a command is no more: it neither cleans up nor says anything."""


@dataclass
class Stack:
    """A stack as CloudFormation has it."""

    name: str
    region: str
    template: dict[str, Any]
    created: Any
    status: str = "CREATE_IN_PROGRESS"


@dataclass
class Whole:
    """An account, and every command that was called in it."""

    aws: FakeAws
    cluster: Cluster
    file: Path
    assembly: Path
    stacks: dict[str, Stack] = field(default_factory=dict)
    executed: list[str] = field(default_factory=list)
    """Names of stacks, each time that one was created or changed."""
    calls: list[str] = field(default_factory=list)
    """What commands asked for, such as ``eks:DescribeCluster``."""
    answers: Mapping[str, Callable[[dict[str, Any]], Any]] = field(default_factory=dict)
    """By call, what answers it in place of moto."""
    _output: io.StringIO = field(default_factory=io.StringIO)
    _kill: tuple[str, int] | None = None
    _passed: int = 0
    _is_killed: bool = False
    _imports: bool = False
    """Whether the newest deploy takes back what an earlier one left."""
    _depth: int = 0
    """Above 0 while something happens in the account itself."""
    _lock: Any = field(default_factory=threading.RLock)

    @property
    def name(self) -> str:
        """The experiment's."""
        return self.cluster.experiment.name

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
        with self.happening():
            assert self.aws.clock.seconds < _LONGEST, self.output
            self.aws.sleep(seconds)

    @contextlib.contextmanager
    def happening(self) -> Iterator[bool]:
        """One thing at a time, whichever thread asks; whether it happens in the account itself."""
        with self._lock:
            is_inside = self._depth > 0
            self._depth += 1
            try:
                if not is_inside:
                    self.boundary()
                yield is_inside
            finally:
                self._depth -= 1

    def boundary(self) -> None:
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

    def cdk(self, command: str, *words: str) -> int:
        """In the place of the CDK's CLI, which waits for one stack after another."""
        if command == "deploy":
            kept = frozenset(
                kind
                for kind, name in (("trainium", "Trainium"), ("compile", "Compile"))
                if any(word.endswith(f":Keep{name}Nodes=true") for word in words)
            )
            self._imports = "--import-existing-resources" in words
            return self._all(lambda stack: self._deploy(stack, kept), STACKS)
        return self._all(self._destroy, STACKS[::-1]) if command == "destroy" else 0

    def _all(self, change: Callable[[str], None], stacks: tuple[str, ...]) -> int:
        for stack in stacks:
            name = f"{self.name}-{stack}"
            change(name)
            while name in self.stacks and self.status(name).endswith("_IN_PROGRESS"):
                clock.sleep(_POLL)
            if name in self.stacks and "ROLLBACK" in self.status(name):
                return 1
        return 0

    def status(self, name: str) -> str:
        """Of a stack that is there."""
        nodes = self.aws.cloudformation.stack
        if name == f"{self.name}-{_NODES}" and nodes is not None:
            return nodes.status
        return self.stacks[name].status

    def _deploy(self, name: str, kept: frozenset[str]) -> None:
        template = json.loads((self.assembly / f"{name}.template.json").read_text())
        stack = self.stacks.get(name)
        if stack and stack.template == template and self.status(name).endswith("_COMPLETE"):
            return
        if stack and self.status(name).endswith("_IN_PROGRESS"):
            raise refused("ValidationError", f"Stack {name} cannot be updated")
        region = self.cluster.experiment.aws.region
        if name.endswith("-budget"):
            region = "us-east-1"
        stack = self.stacks.setdefault(name, Stack(name, region, template, self.aws.clock.now()))
        self.executed.append(name)
        if name.endswith(f"-{_NODES}"):
            self.aws.cloudformation.deploy(Template({"trainium": 1, "compile": 1}, kept=kept))
        else:
            self.aws.clock.after(_STACK_SECONDS, functools.partial(self._complete, stack))

    def _complete(self, stack: Stack) -> None:
        if stack.name.endswith("-model-store") and not self.cluster.make_bucket(self._imports):
            stack.status = "ROLLBACK_COMPLETE"
            return
        if stack.name.endswith("-serving"):
            # All that is asked of a deployment is its name.
            self.cluster.apply(lifecycle.manifests(_Named(self.name)))  # type: ignore[arg-type]
        stack.status = "CREATE_COMPLETE"

    def _destroy(self, name: str) -> None:
        if name not in self.stacks:
            return
        if name.endswith(f"-{_NODES}"):
            self.aws.cloudformation.destroy()
            while self.aws.cloudformation.stack:
                clock.sleep(_POLL)
        del self.stacks[name]

    def describe_stacks(self, region: str, given: Mapping[str, Any]) -> dict[str, Any]:
        """All of a region, or one."""
        wanted = given.get("StackName")
        stacks = [
            s for s in self.stacks.values() if s.region == region and wanted in (None, s.name)
        ]
        if wanted and not stacks:
            raise refused("ValidationError", f"Stack with id {wanted} does not exist")
        return {"Stacks": [self._described(stack) for stack in stacks]}

    def _described(self, stack: Stack) -> dict[str, Any]:
        outputs: list[dict[str, str]] = []
        if stack.name.endswith("-cluster") and stack.status == "CREATE_COMPLETE":
            role = f"arn:aws:iam::{ACCOUNT}:role/{self.name}-administrator"
            outputs = [{"OutputKey": cluster.ADMINISTRATOR_OUTPUT, "OutputValue": role}]
        nodes = self.aws.cloudformation
        if stack.name.endswith(f"-{_NODES}") and nodes.stack:
            (described,) = nodes.describe_stacks(StackName=stack.name)["Stacks"]
            outputs = described["Outputs"]
        return {
            "StackName": stack.name,
            "StackStatus": self.status(stack.name),
            "CreationTime": stack.created,
            "Tags": [{"Key": "Experiment", "Value": self.name}],
            "Outputs": outputs,
        }

    def describe_cluster(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """The experiment's, from the begin of its stack on."""
        stack = self.stacks.get(f"{self.name}-cluster")
        if stack is None:
            raise refused("ResourceNotFoundException", f"No cluster found for name: {self.name}.")
        return {
            "cluster": {
                "name": self.name,
                "status": "ACTIVE" if stack.status == "CREATE_COMPLETE" else "CREATING",
                "endpoint": "https://cluster.example.com",
                "certificateAuthority": {"data": base64.b64encode(b"none").decode()},
                "tags": {"Experiment": self.name},
            }
        }


class _Keyboard(io.StringIO):
    """Of a terminal if something is typed on it."""

    def __init__(self, typed: str | None) -> None:
        super().__init__(f"{typed}\n")
        self._is_terminal = typed is not None

    def isatty(self) -> bool:
        """Whether anybody is there."""
        return self._is_terminal


@dataclass
class _Named:
    name: str


@contextlib.contextmanager
def whole(folder: Path, file: Path) -> Iterator[Whole]:
    """An account that is bootstrapped, and has nothing of the experiment of ``file``."""
    experiment = load(str(file))
    app = cdk.App(outdir=str(folder / "cdk.out"), context=CONTEXT)
    compose(app, experiment, ACCOUNT)
    app.synth()
    limits = {
        "trainium": guard_hours(experiment) * HOUR,
        "compile": compile_guard_hours(experiment) * HOUR,
    }
    aws = FakeAws(experiment.name, limits, SLACK)
    aws.pace.capacity, aws.pace.drain = MINUTE, MINUTE
    with pytest.MonkeyPatch.context() as patch, serving() as objects, mock_aws():
        patch.setenv("AWS_ACCESS_KEY_ID", "a-person")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "none")
        patch.setenv(
            "PATH", f"{Path(sys.executable).parent}:{ROOT}/node_modules/.bin:/usr/bin:/bin"
        )
        patch.setenv(cluster.ADDRESS_VARIABLE, objects.url)
        patch.chdir(folder)
        for region in {experiment.aws.region, "us-east-1"}:
            boto3.client("ssm", region).put_parameter(
                Name="/cdk-bootstrap/hnb659fds/version", Value="30", Type="String"
            )
        store = boto3.client("s3", experiment.aws.region)
        played = Cluster(aws, objects, experiment, store, bucket_name(experiment, ACCOUNT))
        account = Whole(aws, played, file, folder / "cdk.out")
        account.answers = _answers(account)
        _patch(patch, account)
        yield account


def _answers(account: Whole) -> dict[str, Callable[[dict[str, Any]], Any]]:
    facts = Facts(addons={name: [version] for name, version in VERSIONS.items()})
    return {
        **facts.answers,
        "cloudformation:GetTemplate": lambda given: {
            "TemplateBody": account.stacks[given["StackName"]].template
        },
        "eks:DescribeCluster": account.describe_cluster,
        "autoscaling:DescribeScalingActivities": lambda _: {"Activities": []},
    }


def _patch(patch: pytest.MonkeyPatch, account: Whole) -> None:
    """Puts the account behind botocore, the clock and the CDK's CLI."""
    aws = account.aws
    ask = botocore.client.BaseClient._make_api_call
    make = botocore.session.Session.create_client
    run = subprocess.run

    def call(client: Any, operation: str, given: dict[str, Any]) -> Any:
        with account.happening() as is_inside:
            if is_inside:
                return ask(client, operation, given)
            name = f"{client.meta.service_model.service_name}:{operation}"
            account.calls.append(name)
            aws.around("before")
            answer = answered(client, name, given)
            aws.around("after")
            account.boundary()
            return answer

    def answered(client: Any, name: str, given: dict[str, Any]) -> Any:
        service, _, operation = name.partition(":")
        model = client.meta.service_model.operation_model(operation)
        if model.input_shape:
            validate_parameters(given, model.input_shape)
        if name == "cloudformation:DescribeStacks":
            return account.describe_stacks(client.meta.region_name, given)
        if name in account.answers:
            return account.answers[name](given)
        fake = {"eks": aws.eks, "scheduler": aws.scheduler, "stepfunctions": aws.machines}
        method = getattr(fake.get(service), xform_name(operation), None)
        return method(**given) if method else ask(client, operation, given)

    clients: dict[tuple[str, str | None], Any] = {}

    def create_client(
        session: Any, service: str, region_name: str | None = None, **given: Any
    ) -> Any:
        """To make one takes longer than most calls."""
        wanted = service, region_name
        if wanted not in clients:
            clients[wanted] = make(session, service, region_name, **given)
        return clients[wanted]

    def run_program(command: Any, *args: Any, **given: Any) -> Any:
        if command[0] == "cdk":
            return subprocess.CompletedProcess(command, account.cdk(*command[1:]), "", "")
        return run(command, *args, **given)

    def token(place: Any, role: str) -> str:
        place.client("sts").assume_role(RoleArn=role, RoleSessionName="experiment")
        return "a-token"

    patch.setattr(botocore.client.BaseClient, "_make_api_call", call)
    patch.setattr(botocore.session.Session, "create_client", create_client)
    patch.setattr(subprocess, "run", run_program)
    patch.setattr(cluster, "token", token)
    patch.setattr(clock, "now", aws.clock.now)
    patch.setattr(clock, "sleep", account.sleep)
    patch.setattr(time, "sleep", account.sleep)
    patch.setattr(signal, "signal", lambda *_: None)
    for module in (lifecycle, removal):
        patch.setattr(module, "ASSEMBLY", account.assembly)
    for function in (lifecycle.synthesised, lifecycle.assembled):
        patch.setattr(function, "__defaults__", (account.assembly,))
