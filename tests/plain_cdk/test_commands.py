"""The commands of README's "With the CDK alone", by the real CLI on an embedded account."""

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

from rehearsal.aws import Aws, embedded_aws
from tests.conftest import edited
from tests.plain_cdk.cloudformation import CloudFormation, Stack
from tests.synthesis import ROOT

SECTION: Final = (
    (ROOT / "README.md").read_text().split("\n## With the CDK alone")[1].split("\n## ")[0]
)
COMMANDS: Final = [line.split("#")[0].split() for line in re.findall("^cdk .*", SECTION, re.M)]
NAMED_IMAGE: Final = {"benchmark.image": "registry.example/benchmark:1"}
"""It is not built, which would need Docker."""
HURRY: Final = ROOT / "tests/plain_cdk/hurry.cjs"

Run = Callable[..., str]


@pytest.fixture
def aws(tmp_path: Path) -> Iterator[Aws]:
    with embedded_aws("us-east-2", tmp_path / "aws.log") as aws:
        yield aws


@pytest.fixture
def cloudformation(aws: Aws) -> CloudFormation:
    """Of an account in which a bootstrap makes what the CLI looks for: a bucket and a version."""
    s3 = aws.client("s3")

    def made(region: str, stack: Stack) -> None:
        if stack.name == "CDKToolkit":
            bucket = f"cdk-hnb659fds-assets-{aws.account}-{region}"
            s3.create_bucket(
                Bucket=bucket, CreateBucketConfiguration={"LocationConstraint": region}
            )
            version = stack.template["Resources"]["CdkBootstrapVersion"]["Properties"]["Value"]
            name = "/cdk-bootstrap/hnb659fds/version"
            aws.client("ssm").put_parameter(Name=name, Value=version, Type="String")
            stack.outputs |= {"BucketName": bucket, "BootstrapVersion": version}

    def read(bucket: str, key: str) -> bytes:
        body: bytes = s3.get_object(Bucket=bucket, Key=key)["Body"].read()
        return body

    return CloudFormation(aws.account, read, made)


@pytest.fixture
def run(aws: Aws, cloudformation: CloudFormation, tmp_path: Path) -> Iterator[Run]:
    path = [str(Path(sys.executable).parent), str(ROOT / "node_modules/.bin"), os.environ["PATH"]]
    with cloudformation.serving() as url:
        environment = {**aws.environment} | {
            "PATH": os.pathsep.join(path),
            "HOME": str(tmp_path),
            "JSII_RUNTIME_PACKAGE_CACHE_ROOT": str(Path.home() / ".cache/aws/jsii/package-cache"),
            "AWS_ENDPOINT_URL_CLOUDFORMATION": url,
            "CDK_DISABLE_CLI_TELEMETRY": "true",
            "NODE_OPTIONS": f"{os.environ['NODE_OPTIONS']} --require {HURRY}",
        }

        def run(
            *command: str, output: str = "unused", validation: str = "false", status: int = 0
        ) -> str:
            where = {"CDK_OUTPUT": str(tmp_path / output), "CDK_VALIDATION": validation}
            result = subprocess.run(
                command,
                cwd=ROOT,
                env=environment | where,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                check=False,
            )
            assert result.returncode == status, result.stdout
            return result.stdout

        yield run


def test_every_command_of_the_readme(
    run: Run, aws: Aws, cloudformation: CloudFormation, tmp_path: Path
) -> None:
    assert [command[1] for command in COMMANDS] == [
        "bootstrap",
        "synth",
        "diff",
        "deploy",
        "destroy",
    ]
    bootstrap, synth, diff, deploy, destroy = COMMANDS
    file = str(edited(tmp_path, NAMED_IMAGE))
    example = "experiment=experiments/mine.yaml"
    words = [word.replace(example, f"experiment={file}") for word in synth]
    run(*words, output="plain", validation="true")

    def same(command: list[str], *answers: str) -> str:
        """With what that has synthesised, in place of synthesising it again: ten seconds."""
        assert command[-2:] == ["-c", example]
        return run(*command[:-2], "--app", str(tmp_path / "plain"), *answers)

    def deployed() -> list[str]:
        same(deploy, "--require-approval", "never", "--concurrency", "4")
        changed = [*cloudformation.changed]
        cloudformation.changed.clear()
        return changed

    same(bootstrap)
    cloudformation.changed.clear()
    order = deployed()
    assert len(order) == 7
    assert order[-1] == "article-serving"
    assert "Number of stacks with differences: 0" in same(diff)

    # By make, of the same file: CloudFormation is told nothing new, and not a byte differs.
    python = [sys.executable, "-m", "operations"]
    run(*python, "deploy", "--experiment", file, "--yes")
    assert cloudformation.changed == []
    by_make = ROOT / "cdk.out" / f"article-{aws.account}"
    for stack in order:
        template = f"{stack}.template.json"
        plain, make = tmp_path / "plain" / template, by_make / template
        assert plain.read_bytes() == make.read_bytes() == cloudformation.standing[stack].encode()

    same(destroy, "--force")
    assert not cloudformation.standing.keys() & {*order}
    # The bucket and the logs are taken back: their names have the account.
    assert deployed()[-1] == order[-1]
