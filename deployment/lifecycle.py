"""Deploys, finds and deletes the stacks of one experiment in an account."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from botocore.exceptions import ClientError

from deployment.account import account_id, client, in_words
from deployment.errors import DeploymentError
from deployment.place import Place
from experiment import Experiment
from experiment.notes import notes
from stacks.budget import budget_region

ROOT: Final = Path(__file__).parents[1]
ASSEMBLY: Final = ROOT / "cdk.out"
TAG: Final = "Experiment"
"""Key of the tag that ``app.py`` gives to every stack."""


@dataclass(frozen=True)
class Stack:
    """A stack of the experiment. ``status`` is None if the account does not have it."""

    name: str
    region: str
    status: str | None


def deploy(experiment: Experiment, file: str, stacks: Sequence[str], *, yes: bool) -> int:
    """Deploys ``stacks`` and what they need, or all; returns the CLI's exit status.

    Synthesis gets the account. So names are literal, and CloudFormation can import the bucket and
    the logs that an earlier deploy left. Raises DeploymentError.
    """
    account = account_id(experiment.aws.region)
    _say(f"{_headline(experiment, file, account)}: deploying {', '.join(stacks) or 'all stacks'}")
    for note in notes(experiment):
        _say(f"{file}: {note}")
    approval = ["--require-approval", "never"] if yes else []
    wanted = [*stacks] or ["--all"]
    context = _context(file, account)
    return _cdk("deploy", *wanted, "--import-existing-resources", *approval, *context)


def destroy(experiment: Experiment, file: str, *, yes: bool) -> int:
    """Deletes the stacks that exist, and no others; returns the CLI's exit status.

    It first prints what it found and what will stay. Raises DeploymentError, also if there is
    nothing to delete.
    """
    account = account_id(experiment.aws.region)
    _say(f"{_headline(experiment, file, account)}: looking for its stacks")
    if not any(_begins_with(f"{experiment.name}-", region) for region in _regions(experiment)):
        raise _nothing(experiment, account)
    if not (yes or sys.stdin.isatty()):
        raise DeploymentError("there is no terminal to ask on; YES=1 deletes without asking")
    _synthesise(file, account)
    stacks = [*_found(ASSEMBLY)]
    there = [stack.name for stack in stacks if stack.status]
    if not there:
        raise _nothing(experiment, account)
    width = max(len(stack.name) for stack in stacks)
    for stack in stacks:
        what = f"will be deleted ({stack.status})" if stack.status else "not there"
        _say(f"  {stack.name:{width}}  {stack.region}  {what}")
    for kept in _kept(ASSEMBLY, there):
        _say(f"  {kept} stays; make deploy takes it back")
    force = ["--force"] if yes else []
    return _cdk("destroy", "--app", str(ASSEMBLY), *there, "--exclusively", *force)


def synthesised(place: Place) -> list[Stack]:
    """The stacks that ``place`` is to have, from the assembly that this writes.

    Raises DeploymentError.
    """
    _synthesise(place.file, place.account)
    return [*_found(ASSEMBLY)]


def unchanged(stack: Stack) -> bool:
    """Whether the account has the stack, at rest, with the template of the assembly.

    Raises DeploymentError.
    """
    if stack.status is None or not stack.status.endswith(("CREATE_COMPLETE", "UPDATE_COMPLETE")):
        return False
    cloudformation = client("cloudformation", stack.region)
    with in_words():
        told = cloudformation.get_template(StackName=stack.name, TemplateStage="Original")
    template = told["TemplateBody"]  # parsed by boto3 if it is JSON
    there = json.loads(template) if isinstance(template, str) else template
    wanted = (ASSEMBLY / f"{stack.name}.template.json").read_text(encoding="utf-8")
    return bool(there == json.loads(wanted))


def current(stack: Stack) -> Stack:
    """The same stack with its status now. Raises DeploymentError."""
    return Stack(stack.name, stack.region, _status(stack.name, stack.region))


def bootstrap(experiment: Experiment, file: str) -> int:
    """Prepares the account's regions for the CDK; returns the CLI's exit status.

    Raises DeploymentError.
    """
    account = account_id(experiment.aws.region)
    places = [f"aws://{account}/{region}" for region in sorted(_regions(experiment))]
    _say(f"{_headline(experiment, file, account)}: preparing {', '.join(places)}")
    return _cdk("bootstrap", *places, *_context(file, account))


def _regions(experiment: Experiment) -> set[str]:
    """The experiment's region and that of its budget."""
    return {experiment.aws.region, budget_region(experiment.aws.region)}


def _nothing(experiment: Experiment, account: str) -> DeploymentError:
    found = {name for region in _regions(experiment) for name in _experiments(region)}
    others = ", ".join(sorted(found - {experiment.name}))
    return DeploymentError(
        f"nothing of experiment {experiment.name} is in account {account}, "
        f"{experiment.aws.region}: nothing was deleted. "
        + (f"There are stacks of: {others}" if others else "No experiment has stacks there")
    )


def _headline(experiment: Experiment, file: str, account: str) -> str:
    return f"experiment {experiment.name} ({file}), account {account}, {experiment.aws.region}"


def _say(line: str) -> None:
    """Prints at once, because the CLI writes to the same terminal past this process's buffer."""
    print(line, flush=True)


def _context(file: str, account: str) -> list[str]:
    return ["--context", f"experiment={Path(file).resolve()}", "--context", f"account={account}"]


def _synthesise(file: str, account: str) -> None:
    """Writes the assembly. The CLI's output is shown only if it fails."""
    arguments = ("synth", "--quiet", "--output", str(ASSEMBLY), *_context(file, account))
    done = _run(arguments, capture=True)
    if done.returncode:
        raise DeploymentError((done.stderr or done.stdout).strip())


def _cdk(*arguments: str) -> int:
    """Runs the CLI, which asks and reports on this terminal."""
    return _run(arguments, capture=False).returncode


def _run(arguments: Sequence[str], *, capture: bool) -> subprocess.CompletedProcess[str]:
    command = ["cdk", *arguments, "--no-lookups", "--no-notices"]
    try:
        return subprocess.run(command, cwd=ROOT, check=False, capture_output=capture, text=True)
    except FileNotFoundError:
        raise DeploymentError("no cdk on the PATH: make brings it") from None


def _found(assembly: Path) -> Iterator[Stack]:
    """Each stack of the assembly, with its status in the account."""
    for name, artifact in _artifacts(assembly):
        region = artifact["environment"].rpartition("/")[2]
        yield Stack(name, region, _status(name, region))


def _artifacts(assembly: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    manifest = json.loads((assembly / "manifest.json").read_text(encoding="utf-8"))
    for name, artifact in manifest["artifacts"].items():
        if artifact["type"] == "aws:cloudformation:stack":
            yield name, artifact


def _status(name: str, region: str) -> str | None:
    cloudformation = client("cloudformation", region)
    with in_words():
        try:
            (found,) = cloudformation.describe_stacks(StackName=name)["Stacks"]
        except ClientError as error:
            # CloudFormation has no error code for a stack that does not exist.
            if "does not exist" in str(error):
                return None
            raise
    status: str = found["StackStatus"]
    return None if status == "DELETE_COMPLETE" else status


def _begins_with(prefix: str, region: str) -> bool:
    """Whether any stack's name begins with ``prefix``. Asking is quicker than synthesis."""
    return any(stack["StackName"].startswith(prefix) for stack in _all(region))


def _experiments(region: str) -> set[str]:
    """Names of the experiments that have stacks in ``region``, by their tags."""
    return {
        tag["Value"] for stack in _all(region) for tag in stack.get("Tags", []) if tag["Key"] == TAG
    }


def _all(region: str) -> list[dict[str, Any]]:
    with in_words():
        pages = client("cloudformation", region).get_paginator("describe_stacks").paginate()
        return [stack for page in pages for stack in page["Stacks"]]


def _kept(assembly: Path, stacks: Sequence[str]) -> Iterator[str]:
    """Names of the resources that outlive these stacks."""
    for stack in stacks:
        template = json.loads((assembly / f"{stack}.template.json").read_text(encoding="utf-8"))
        for logical_id, resource in template["Resources"].items():
            if resource.get("DeletionPolicy") == "Retain":
                properties = resource["Properties"]
                yield properties.get("BucketName") or properties.get("LogGroupName") or logical_id
