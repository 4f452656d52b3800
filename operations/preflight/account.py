"""Asks an account: is it prepared for the CDK, and what are the stacks of these names."""

import json
from collections.abc import Iterator
from typing import Any, Final

from operations.account import Deployment, ask
from operations.lifecycle import ROOT, owner, regions, zone_conflict
from operations.preflight.check import Finding, ok, refused, warning
from stacks.delivery import stack_regions

BOOTSTRAP_VERSION: Final = 6
"""The version that stacks of aws-cdk-lib need (``requiresBootstrapStackVersion``).
A test compares."""

_EVENTS: Final = "aws cloudformation describe-stack-events --region {region} --stack-name {stack}"
_MADE_ANEW: Final = f"a deploy deletes it and makes it anew; why it failed: {_EVENTS}"
_HALF_WAY: Final = f"cdk rollback {{stack}}, then deploy; {_EVENTS}"
_REMEDIES: Final = {
    # The CLI deletes these before it makes them anew (aws-cdk 2.1148.1, isCreationFailure).
    **dict.fromkeys(("ROLLBACK_COMPLETE", "ROLLBACK_FAILED"), _MADE_ANEW),
    **dict.fromkeys(("CREATE_FAILED", "UPDATE_FAILED"), _HALF_WAY),
    **dict.fromkeys(("UPDATE_ROLLBACK_FAILED", "IMPORT_ROLLBACK_FAILED"), _HALF_WAY),
    "DELETE_FAILED": f"make destroy EXPERIMENT={{file}}; what is in the way: {_EVENTS}",
    "DELETE_IN_PROGRESS": "wait until the destroy has ended, then begin again",
}
"""Remedies for states of a stack from which a deploy does not go on."""


def bootstrap(deployment: Deployment) -> Iterator[Finding]:
    """The CDK's bootstrap of the experiment's region, and of its budget's."""
    remedy = f"make bootstrap EXPERIMENT={deployment.file}"
    for region in sorted(regions(deployment.experiment)):
        ssm, subject = deployment.client("ssm", region), f"bootstrap {region}"
        answer = ask(ssm.get_parameter, Name=f"/cdk-bootstrap/{_qualifier()}/version")
        version = int(answer["Parameter"]["Value"]) if answer else None
        if version is None:
            yield refused("the region is not prepared for the CDK", remedy, subject)
        elif version < BOOTSTRAP_VERSION:
            text = f"version {version}; the stacks need {BOOTSTRAP_VERSION}"
            yield refused(text, remedy, subject)
        else:
            yield ok(f"version {version}", subject=subject)


def _qualifier() -> str:
    context = json.loads((ROOT / "cdk.json").read_text(encoding="utf-8"))["context"]
    return str(context.get("@aws-cdk/core:bootstrapQualifier", "hnb659fds"))


def stacks(deployment: Deployment) -> Iterator[Finding]:
    """Whose the stacks of these names are, and whether a deploy can change them."""
    names = stack_regions(deployment.experiment)
    existing, problems = 0, list[Finding]()
    for name, region in names.items():
        if stack := deployment.stack(name, region):
            existing += 1
            problems += _problems(deployment, stack, region)
    if conflict := zone_conflict(deployment):
        problems.append(refused(conflict, "set the zones back, or make destroy first"))
    yield from problems
    if not problems:
        yield ok(f"{existing} of {len(names)} exist; nobody else has their names")


def _problems(deployment: Deployment, stack: dict[str, Any], region: str) -> Iterator[Finding]:
    name, status = stack["StackName"], stack["StackStatus"]
    subject = f"stack {name}"
    if owner(stack) != deployment.name:
        text = f"is not tagged Experiment = {deployment.name}: somebody else's"
        yield refused(text, "give the experiment another name", subject)
    elif remedy := _REMEDIES.get(status):
        remedy = remedy.format(region=region, stack=name, file=deployment.file)
        judge = warning if status.startswith("ROLLBACK") else refused
        yield judge(f"is {status}", remedy, subject)
    elif _is_changing(status):
        yield refused(f"is {status}", "wait until it is done, as make experiment does", subject)


def changing_stacks(deployment: Deployment) -> list[str]:
    """CloudFormation's present work on each stack that it creates, updates or rolls back."""
    changes = []
    for name, region in stack_regions(deployment.experiment).items():
        stack = deployment.stack(name, region)
        if stack and _is_changing(stack["StackStatus"]):
            changes.append(f"{name} is {stack['StackStatus']}")
    return changes


def _is_changing(status: str) -> bool:
    """Whether it ends by itself in a state from which a deploy goes on.

    After a deletion begins somebody wants the experiment gone. ``REVIEW_IN_PROGRESS`` is a change
    set that was never carried out, which the CLI takes over.
    """
    return status.endswith("_IN_PROGRESS") and not status.startswith(("DELETE", "REVIEW"))
