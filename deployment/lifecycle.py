"""Deploys and finds the stacks of one experiment in an account."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from botocore.exceptions import ClientError

from deployment import guard, nodes
from deployment.account import client, in_words
from deployment.errors import DeploymentError
from deployment.nodes import Kind
from deployment.place import Place
from experiment import Experiment
from experiment.notes import notes
from experiment.schema import CompileNode, Purchase
from stacks.regions import budget_region

ROOT: Final = Path(__file__).parents[1]
ASSEMBLY: Final = ROOT / "cdk.out"

_APPLIED: Final = "Custom::AWSCDK-EKS-KubernetesResource"
_NOT_ASCII: Final = re.compile(r"[?\u0080-\U0010ffff]+")


@dataclass(frozen=True)
class Stack:
    """A stack of the experiment. ``status`` is None if the account does not have it."""

    name: str
    region: str
    status: str | None


def deploy(place: Place, stacks: Sequence[str], *, yes: bool, is_synthesised: bool = False) -> int:
    """Deploys ``stacks`` and what they need, or all; returns the CLI's exit status.

    Synthesis gets the account. So names are literal, and CloudFormation can import the bucket and
    the logs that an earlier deploy left. Raises DeploymentError. ``is_synthesised``: the assembly
    is that of now, and is not written once more.
    """
    say(f"{place.headline}: deploying {', '.join(stacks) or 'all stacks'}")
    for note in notes(place.experiment):
        say(f"{place.file}: {note}")
    kept = {kind: _has_nodes(place, kind) for kind in _kinds(place.experiment)}
    if any(kept.values()) and place.experiment.capacity.purchase is Purchase.CAPACITY_BLOCK:
        say(
            "nodes of a Capacity Block stand: a change of what they are made of, such as their "
            "image, fails (EKS wants none then); make stop first"
        )
    approval = ["--require-approval", "never"] if yes else []
    wanted = [*stacks] or ["--all"]
    app = ["--app", str(ASSEMBLY)] if is_synthesised else context(place.file, place.account)
    # Always given, because the CLI would go on with what it was given last.
    sizes = [
        option
        for kind, has_nodes in kept.items()
        for option in ("--parameters", _parameter(place, kind, has_nodes))
    ]
    return cdk("deploy", *wanted, "--import-existing-resources", *approval, *sizes, *app)


def _kinds(experiment: Experiment) -> list[Kind]:
    """The groups that the trainium stack is to have."""
    on_cpus = experiment.compile_node is CompileNode.CPU
    return [kind for kind in Kind if on_cpus or kind is not Kind.COMPILE]


def _has_nodes(place: Place, kind: Kind) -> bool:
    """Whether a deploy must not change the number of nodes, which may have been asked for just now.

    A group that is not there is made without.
    """
    group = nodes.find(place, kind)
    return group is not None and bool(group.size or guard.find(place, kind))


def _parameter(place: Place, kind: Kind, has_nodes: bool) -> str:
    return f"{place.name}-{nodes.STACK}:{kind.parameter}={'true' if has_nodes else 'false'}"


def synthesised(place: Place, assembly: Path = ASSEMBLY) -> list[Stack]:
    """The stacks that ``place`` is to have, from the assembly that this writes.

    Raises DeploymentError.
    """
    _synthesise(place, assembly)
    return assembled(assembly)


def assembled(assembly: Path = ASSEMBLY) -> list[Stack]:
    """The stacks of the assembly as it is. Raises DeploymentError."""
    return [*_found(assembly)]


def unchanged(stack: Stack) -> bool:
    """Whether the account has the stack, at rest, with the template of the assembly.

    GetTemplate returns ``?`` for characters beyond ASCII, so these count as equal. What a user may
    write in them stands in the benchmark's configuration alone, which is ASCII
    (``spectap.config.dump``). Raises DeploymentError.
    """
    if stack.status is None or not stack.status.endswith(("CREATE_COMPLETE", "UPDATE_COMPLETE")):
        return False
    cloudformation = client("cloudformation", stack.region)
    with in_words():
        told = cloudformation.get_template(StackName=stack.name, TemplateStage="Original")
    template = told["TemplateBody"]  # parsed by boto3 if it is JSON
    there = json.loads(template) if isinstance(template, str) else template
    wanted = (ASSEMBLY / f"{stack.name}.template.json").read_text(encoding="utf-8")
    return _as_returned(there) == _as_returned(json.loads(wanted))


def _as_returned(template: object) -> str:
    """The template as GetTemplate returns it, however many ``?`` a character becomes."""
    return _NOT_ASCII.sub("?", json.dumps(template, sort_keys=True, ensure_ascii=False))


def manifests(place: Place) -> list[dict[str, Any]]:
    """The objects that the deploy applies, in its order: from the assembly as it is.

    With an account, which synthesis has been told, they are JSON without a reference.
    """
    path = ASSEMBLY / f"{place.name}-serving.template.json"
    resources = json.loads(path.read_text(encoding="utf-8"))["Resources"].values()
    return [
        manifest
        for resource in resources
        if resource["Type"] == _APPLIED
        for manifest in json.loads(resource["Properties"]["Manifest"])
    ]


def bootstrap(place: Place) -> int:
    """Prepares the account's regions for the CDK; returns the CLI's exit status.

    Raises DeploymentError.
    """
    places = [f"aws://{place.account}/{region}" for region in sorted(regions(place.experiment))]
    say(f"{place.headline}: preparing {', '.join(places)}")
    return cdk("bootstrap", *places, *context(place.file, place.account))


def regions(experiment: Experiment) -> set[str]:
    """The experiment's region and that of its budget."""
    return {experiment.aws.region, budget_region(experiment.aws.region)}


def say(line: str) -> None:
    """Prints at once, because the CLI writes to the same terminal past this process's buffer."""
    print(line, flush=True)


def context(file: str, account: str) -> list[str]:
    """What ``app.py`` is told."""
    return ["--context", f"experiment={Path(file).resolve()}", "--context", f"account={account}"]


def _synthesise(place: Place, assembly: Path) -> None:
    """Writes the assembly. The CLI's output is shown only if it fails."""
    told = context(place.file, place.account)
    arguments = ("synth", "--quiet", "--output", str(assembly), *told)
    done = run(arguments, capture=True)
    if done.returncode:
        raise DeploymentError((done.stderr or done.stdout).strip())


def cdk(*arguments: str) -> int:
    """Runs the CLI, which asks and reports on this terminal."""
    return run(arguments, capture=False).returncode


def run(arguments: Sequence[str], *, capture: bool) -> subprocess.CompletedProcess[str]:
    """Runs the CLI; with ``capture`` what it prints is kept. Raises DeploymentError."""
    command = ["cdk", *arguments, "--no-lookups", "--no-notices"]
    try:
        return subprocess.run(command, cwd=ROOT, check=False, capture_output=capture, text=True)
    except FileNotFoundError:
        raise DeploymentError("no cdk on the PATH: make brings it") from None


def _found(assembly: Path) -> Iterator[Stack]:
    """Each stack of the assembly, with its status in the account."""
    for name, artifact in _artifacts(assembly):
        region = artifact["environment"].rpartition("/")[2]
        yield Stack(name, region, stack_status(name, region))


def _artifacts(assembly: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    manifest = json.loads((assembly / "manifest.json").read_text(encoding="utf-8"))
    for name, artifact in manifest["artifacts"].items():
        if artifact["type"] == "aws:cloudformation:stack":
            yield name, artifact


def stack_status(name: str, region: str) -> str | None:
    """CloudFormation's word, or None if the account has no such stack. Raises DeploymentError."""
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
