"""Whether what the experiment creates can have its names."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from botocore.exceptions import ClientError

from charts.names import bucket_name
from deployment.place import Place
from deployment.preflight.finding import Finding, ok, refused, warning
from deployment.stack import TAG
from stacks.regions import budget_region, budget_stack_name

STACKS: Final = ("network", "cluster", "model-store", "trainium", "serving", "observability")
"""The stacks of the experiment's region, after its name. A test compares them with the app's."""

_MADE_ANEW: Final = frozenset({"ROLLBACK_COMPLETE", "ROLLBACK_FAILED"})
"""Stacks that the CLI deletes before it makes them anew (aws-cdk 2.1148.1, isCreationFailure)."""
_HALF_WAY: Final = frozenset(
    {"CREATE_FAILED", "UPDATE_FAILED", "UPDATE_ROLLBACK_FAILED", "IMPORT_ROLLBACK_FAILED"}
)


def stack_names(place: Place) -> Iterator[tuple[str, str]]:
    """Name and region of each stack."""
    yield from ((f"{place.name}-{part}", place.region) for part in STACKS)
    yield budget_stack_name(place.experiment), budget_region(place.region)


def stacks(place: Place) -> Iterator[Finding]:
    """None belongs to somebody else, and none is in a state that a deploy cannot change."""
    found = [(region, _stack(place, name, region)) for name, region in stack_names(place)]
    there = [(region, stack) for region, stack in found if stack]
    wrong = [row for region, stack in there for row in _judged(place, stack, region)]
    yield from wrong
    if not wrong:
        how_many = f"{len(there)} of {len(found)} stand" if there else "none stands yet"
        yield ok("stacks", f"{how_many}; nobody else has their names")


def stands(place: Place, part: str) -> bool:
    """Whether the stack of that name, one of ``STACKS``, is there, in whatever state."""
    return _stack(place, f"{place.name}-{part}", place.region) is not None


def _stack(place: Place, name: str, region: str) -> dict[str, Any] | None:
    cloudformation = place.client("cloudformation", region)
    try:
        (found,) = cloudformation.describe_stacks(StackName=name)["Stacks"]
    except ClientError as error:
        if "does not exist" in str(error):
            return None
        raise
    return None if found["StackStatus"] == "DELETE_COMPLETE" else dict(found)


def _judged(place: Place, stack: dict[str, Any], region: str) -> Iterator[Finding]:
    name, status = stack["StackName"], stack["StackStatus"]
    subject = f"stack {name}"
    if {"Key": TAG, "Value": place.name} not in stack.get("Tags", []):
        yield refused(
            subject,
            f"is not tagged {TAG} = {place.name}: somebody else's",
            "give the experiment another name",
        )
    elif status in _MADE_ANEW:
        yield warning(
            subject,
            f"is {status}: its creation failed",
            f"a deploy deletes it and makes it anew; why it failed: {_events(name, region)}",
        )
    elif status in _HALF_WAY:
        yield refused(
            subject, f"is {status}", f"cdk rollback {name}, then deploy; {_events(name, region)}"
        )
    elif status == "DELETE_FAILED":
        remedy = (
            f"make destroy EXPERIMENT={place.file}; what is in the way: {_events(name, region)}"
        )
        yield refused(subject, f"is {status}", remedy)
    elif status == "DELETE_IN_PROGRESS":
        yield refused(subject, f"is {status}", "wait until the destroy has ended, then begin again")
    elif _is_changing(status):
        yield refused(subject, f"is {status}", "wait until it is done, as make experiment does")


def changing(place: Place) -> list[str]:
    """What CloudFormation does now to each stack that it creates, updates or rolls back."""
    found = []
    for name, region in stack_names(place):
        status = (_stack(place, name, region) or {"StackStatus": ""})["StackStatus"]
        if _is_changing(status):
            cloudformation = place.client("cloudformation", region)
            newest = cloudformation.describe_stack_events(StackName=name)["StackEvents"][0]
            event = f"{newest['LogicalResourceId']} {newest['ResourceStatus']}"
            found.append(f"{name} is {status} ({event})")
    return found


def _is_changing(status: str) -> bool:
    """Whether it ends by itself in a state from which a deploy goes on.

    After a deletion begins somebody wants the experiment gone. ``REVIEW_IN_PROGRESS`` is a change
    set that was never carried out, which the CLI takes over.
    """
    return status.endswith("_IN_PROGRESS") and not status.startswith(("DELETE", "REVIEW"))


def _events(name: str, region: str) -> str:
    return f"aws cloudformation describe-stack-events --region {region} --stack-name {name}"


def cluster(place: Place) -> Iterator[Finding]:
    """A cluster of this name is the experiment's own."""
    try:
        found = place.client("eks").describe_cluster(name=place.name)["cluster"]
    except ClientError as error:
        if error.response["Error"]["Code"] != "ResourceNotFoundException":
            raise
        yield ok("cluster", f"the name {place.name} is free")
        return
    if found.get("tags", {}).get(TAG) == place.name:
        yield ok("cluster", f"{place.name} stands, {found['status']}")
    else:
        yield refused(
            "cluster",
            f"there is a cluster {place.name} that is not tagged {TAG} = {place.name}",
            "give the experiment another name",
        )


def bucket(place: Place) -> Iterator[Finding]:
    """A bucket of this name is the account's own. A deploy takes it back."""
    name = bucket_name(place.experiment, place.account)
    s3 = place.client("s3")
    try:
        s3.head_bucket(Bucket=name)
    except ClientError as error:
        code = error.response["Error"]["Code"]
        if code == "404":
            yield ok("bucket", f"the name {name} is free")
        elif code != "403":
            raise
        elif any(its["Name"] == name for its in s3.list_buckets(Prefix=name)["Buckets"]):
            yield warning(
                "bucket",
                f"not known: these credentials may not call s3:ListBucket on {name}",
                "allow s3:ListBucket, which only reads",
            )
        else:
            yield refused(
                "bucket",
                f"{name} belongs to another account",
                "give the experiment another name",
            )
        return
    if stands(place, "model-store"):
        yield ok("bucket", f"{name} stands")
    else:
        yield ok("bucket", f"{name} stayed of an earlier deploy; the next one takes it back")


def log_prefixes(place: Place) -> tuple[str, ...]:
    """How the names of the log groups begin that outlive the stacks."""
    return f"/aws/eks/{place.name}/", f"/aws/containerinsights/{place.name}/"


def log_groups(place: Place) -> Iterator[Finding]:
    """Groups that outlived an earlier cluster are taken back."""
    pages = place.client("logs").get_paginator("describe_log_groups")
    there = [
        group["logGroupName"]
        for prefix in log_prefixes(place)
        for page in pages.paginate(logGroupNamePrefix=prefix)
        for group in page["logGroups"]
    ]
    if not there:
        yield ok("log groups", "none of an earlier deploy")
    elif stands(place, "cluster"):
        yield ok("log groups", f"{len(there)} stand")
    else:
        yield ok("log groups", f"{', '.join(there)} stayed; the next deploy takes them back")
