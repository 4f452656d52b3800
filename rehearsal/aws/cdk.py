"""The real CDK CLI, pinned by ``package.json`` and called as the Makefile calls it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from rehearsal.aws.client import Aws
from rehearsal.errors import RehearsalError
from rehearsal.process.processes import run

TIMEOUT_SECONDS: Final = 300.0

# Types of resources that moto's CloudFormation does not know and silently leaves out. So the alarms
# and the policies of bucket and topic are not tried. (Of a bucket moto makes name, encryption and
# tags, but neither versions nor lifecycle rules.)
NOT_IN_MOTO: Final = frozenset(
    {"AWS::CloudWatch::Alarm", "AWS::S3::BucketPolicy", "AWS::SNS::TopicPolicy"}
)


@dataclass(frozen=True)
class Cdk:
    """The CLI in one checkout. ``logs`` takes its output."""

    root: Path
    assembly: Path
    logs: Path

    def synthesise(self, experiment: str, environment: Mapping[str, str]) -> None:
        """Writes the assembly and ``dist/``. Raises ProcessError."""
        arguments = ["--context", f"experiment={experiment}", "--output", str(self.assembly)]
        self._run("synth", [*arguments, "--quiet"], environment)

    def bootstrap(self, aws: Aws) -> None:
        """Bootstraps each region of the assembly. Raises ProcessError."""
        self._run("bootstrap", self._app(), aws.environment)

    def deploy(self, aws: Aws, stacks: Sequence[str]) -> None:
        """Deploys ``stacks`` of the assembly, and no others. Raises ProcessError."""
        options = ["--require-approval", "never", "--exclusively"]
        self._run("deploy", [*self._app(), *stacks, *options], aws.environment)

    def left_out(self, aws: Aws, stacks: Sequence[str]) -> Counter[str]:
        """Types of resources of deployed stacks that moto left out, and how many of each.

        Raises RehearsalError if a resource is missing that moto should have made.
        """
        missing = Counter[str]()
        for stack in stacks:
            missing += self._not_made(aws, stack)
        if unexpected := missing.keys() - NOT_IN_MOTO:
            raise RehearsalError(f"deployed, but missing: {', '.join(sorted(unexpected))}")
        return missing

    def _not_made(self, aws: Aws, stack: str) -> Counter[str]:
        template = json.loads((self.assembly / f"{stack}.template.json").read_text())
        resources: dict[str, Any] = template["Resources"]
        found = aws.client("cloudformation").describe_stack_resources(StackName=stack)
        # moto lists resources that it does not know, but without a name.
        made = {resource.get("LogicalResourceId") for resource in found["StackResources"]}
        return Counter(
            resource["Type"] for logical_id, resource in resources.items() if logical_id not in made
        )

    def _app(self) -> list[str]:
        return ["--app", str(self.assembly)]

    def _run(self, command: str, arguments: Sequence[str], environment: Mapping[str, str]) -> None:
        cli = self.root / "node_modules" / ".bin" / "cdk"
        # Otherwise every command looks up a host of AWS.
        quiet = {"CDK_DISABLE_CLI_TELEMETRY": "true"}
        options = ["--ci", "--no-notices", "--no-lookups"]
        run(
            [str(cli), command, *arguments, *options],
            {**environment, **quiet},
            self.logs / f"cdk-{command}.log",
            TIMEOUT_SECONDS,
        )
