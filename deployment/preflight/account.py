"""Asks an account: who acts, and what has the names already."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from botocore.exceptions import ClientError

from charts.names import bucket_name
from deployment.account import Deployment
from deployment.lifecycle import TAG, owner, regions
from deployment.preflight.check import Finding, ok, refused, warning
from stacks.regions import budget_region, budget_stack_name

BOOTSTRAP_VERSION: Final = 6
"""What the stacks of aws-cdk-lib need, as their assembly says (``requiresBootstrapStackVersion``).
A test compares."""
_BOOTSTRAP_PARAMETER: Final = "/cdk-bootstrap/hnb659fds/version"

STACKS: Final = ("network", "cluster", "model-store", "trainium", "serving", "observability")
"""The stacks of the experiment's region, after its name. A test compares them with the app's."""

_MADE_ANEW: Final = ("ROLLBACK_COMPLETE", "ROLLBACK_FAILED")
"""The CLI deletes these before it makes them anew (aws-cdk 2.1148.1, isCreationFailure)."""
_HALF_WAY: Final = (
    *("CREATE_FAILED", "UPDATE_FAILED"),
    *("UPDATE_ROLLBACK_FAILED", "IMPORT_ROLLBACK_FAILED"),
)
_ANOTHER_NAME: Final = "give the experiment another name"


def credentials(deployment: Deployment) -> Iterator[Finding]:
    """Who acts."""
    arn = deployment.client("sts").get_caller_identity()["Arn"]
    yield ok(f"account {deployment.account}, {arn}")


def bootstrap(deployment: Deployment) -> Iterator[Finding]:
    """The CDK's bootstrap of the experiment's region, and of its budget's."""
    remedy = f"make bootstrap EXPERIMENT={deployment.file}"
    for region in sorted(regions(deployment.experiment)):
        ssm, subject = deployment.client("ssm", region), f"bootstrap {region}"
        try:
            version = int(ssm.get_parameter(Name=_BOOTSTRAP_PARAMETER)["Parameter"]["Value"])
        except ClientError as error:
            if error.response["Error"]["Code"] != "ParameterNotFound":
                raise
            yield refused("the region is not prepared for the CDK", remedy, subject)
            continue
        if version < BOOTSTRAP_VERSION:
            text = f"version {version}; the stacks need {BOOTSTRAP_VERSION}"
            yield refused(text, remedy, subject)
        else:
            yield ok(f"version {version}", subject)


def stack_names(deployment: Deployment) -> Iterator[tuple[str, str]]:
    """Name and region of each stack."""
    yield from ((f"{deployment.name}-{label}", deployment.region) for label in STACKS)
    yield budget_stack_name(deployment.experiment), budget_region(deployment.region)


def stacks(deployment: Deployment) -> Iterator[Finding]:
    """Whose the stacks of these names are, and whether a deploy can change them."""
    names = [*stack_names(deployment)]
    existing, has_problems = 0, False
    for name, region in names:
        stack = deployment.stack(name, region)
        if stack is None:
            continue
        existing += 1
        if owner(stack) != deployment.name:
            text = f"is not tagged Experiment = {deployment.name}: somebody else's"
            problem = refused(text, _ANOTHER_NAME)
        elif answer := _problem(deployment, name, region, stack["StackStatus"]):
            problem = answer
        else:
            continue
        has_problems = True
        yield problem._replace(subject=f"stack {name}")
    if not has_problems:
        yield ok(f"{existing} of {len(names)} exist; nobody else has their names")


def _problem(deployment: Deployment, name: str, region: str, status: str) -> Finding | None:
    events = f"aws cloudformation describe-stack-events --region {region} --stack-name {name}"
    if status in _MADE_ANEW:
        remedy = f"a deploy deletes it and makes it anew; why it failed: {events}"
        return warning(f"is {status}: its creation failed", remedy)
    if status in _HALF_WAY:
        return refused(f"is {status}", f"cdk rollback {name}, then deploy; {events}")
    if status == "DELETE_FAILED":
        remedy = f"make destroy EXPERIMENT={deployment.file}; what is in the way: {events}"
        return refused(f"is {status}", remedy)
    if status == "DELETE_IN_PROGRESS":
        return refused(f"is {status}", "wait until the destroy has ended, then begin again")
    if _is_changing(status):
        return refused(f"is {status}", "wait until it is done, as make experiment does")
    return None


def changing_stacks(deployment: Deployment) -> list[str]:
    """What CloudFormation does now to each stack that it creates, updates or rolls back."""
    changes = []
    for name, region in stack_names(deployment):
        stack = deployment.stack(name, region)
        if stack and _is_changing(stack["StackStatus"]):
            cloudformation = deployment.client("cloudformation", region)
            newest = cloudformation.describe_stack_events(StackName=name)["StackEvents"][0]
            event = f"{newest['LogicalResourceId']} {newest['ResourceStatus']}"
            changes.append(f"{name} is {stack['StackStatus']} ({event})")
    return changes


def _is_changing(status: str) -> bool:
    """Whether it ends by itself in a state from which a deploy goes on.

    After a deletion begins somebody wants the experiment gone. ``REVIEW_IN_PROGRESS`` is a change
    set that was never carried out, which the CLI takes over.
    """
    return status.endswith("_IN_PROGRESS") and not status.startswith(("DELETE", "REVIEW"))


def has_stack(deployment: Deployment, label: str) -> bool:
    """Whether the stack with this label, one of ``STACKS``, exists, in whatever state."""
    return deployment.stack(f"{deployment.name}-{label}") is not None


def cluster(deployment: Deployment) -> Iterator[Finding]:
    """Whose a cluster of this name is."""
    name = deployment.name
    try:
        described = deployment.client("eks").describe_cluster(name=name)["cluster"]
    except ClientError as error:
        if error.response["Error"]["Code"] != "ResourceNotFoundException":
            raise
        yield ok(f"the name {name} is free")
        return
    if described.get("tags", {}).get(TAG) == name:
        yield ok(f"{name} exists, {described['status']}")
    else:
        text = f"there is a cluster {name} that is not tagged Experiment = {name}"
        yield refused(text, _ANOTHER_NAME)


def bucket(deployment: Deployment) -> Iterator[Finding]:
    """Whose a bucket of this name is. A deploy takes the account's own back."""
    name, s3 = bucket_name(deployment.experiment, deployment.account), deployment.client("s3")
    try:
        s3.head_bucket(Bucket=name)
    except ClientError as error:
        code = error.response["Error"]["Code"]
        if code not in ("403", "404"):
            raise
        if code == "404":
            yield ok(f"the name {name} is free")
        elif any(each["Name"] == name for each in s3.list_buckets(Prefix=name)["Buckets"]):
            text = f"not known: these credentials may not call s3:ListBucket on {name}"
            yield warning(text, "allow s3:ListBucket, which only reads")
        else:
            yield refused(f"{name} belongs to another account", _ANOTHER_NAME)
        return
    if has_stack(deployment, "model-store"):
        yield ok(f"{name} exists")
    else:
        yield ok(f"{name} stayed of an earlier deploy; the next one takes it back")
