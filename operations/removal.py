"""Removes an experiment from its account, and says before what is retained and what that costs."""

import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from charts.names import PROJECT, namespace
from experiment.cost.prices import LOGS, STORAGE
from operations import guard, lifecycle, nodes
from operations.account import Deployment, DeploymentError, ask
from operations.console import answer
from operations.lifecycle import say
from stacks.trainium import DRIVER_OUTPUT

_GIB: Final = 1 << 30
_BATCH: Final = 1000
"""Objects that one call may delete."""
_BUCKET: Final = "AWS::S3::Bucket"
_LOGS: Final = "AWS::Logs::LogGroup"
_NAMES: Final = {_BUCKET: "BucketName", _LOGS: "LogGroupName"}


@dataclass(frozen=True)
class Retained:
    """Something that outlives the stacks."""

    name: str
    bytes: int
    usd_per_gib: float
    """A month."""
    type: str

    def __str__(self) -> str:
        size = f"{self.bytes / _GIB:.1f} GiB" if self.bytes >= _GIB / 10 else "less than 0.1 GiB"
        return f"{self.name} ({size}, {self.bytes / _GIB * self.usd_per_gib:.2f} USD a month)"


def destroy(deployment: Deployment, *, yes: bool, keep: str, name: str | None) -> int:
    """Deletes the stacks that exist, and no others; returns the CLI's exit status.

    ``keep`` is what outlives them: ``results`` is the bucket, which has the checkpoints and graphs
    as well, and the logs; ``none`` deletes these, too, and wants the experiment's ``name``.

    It first says what there is, what is retained and what that costs, and asks. The nodes go first,
    because the rest takes long. Raises DeploymentError, also if there is nothing to delete.
    """
    everything = keep == "none"
    say(f"{deployment.headline}: looking for its stacks")
    if name is not None and name != deployment.name:
        raise DeploymentError(
            f"NAME = {name!r}: the experiment is {deployment.name}: nothing was deleted"
        )
    if not sys.stdin.isatty():
        without = "there is no terminal to ask on; "
        if not yes:
            raise DeploymentError(f"{without}YES=1 deletes without asking")
        if everything and name is None:
            wanted = f"KEEP=none wants NAME={deployment.name} as well as YES=1"
            raise DeploymentError(f"{without}{wanted}")
    stacks = lifecycle.synthesised(deployment)
    deployed = [stack.name for stack in stacks if stack.status]
    remaining = retained(deployment, [stack.name for stack in stacks])
    if not deployed and not (everything and remaining):
        raise DeploymentError(
            f"nothing of experiment {deployment.name} is in account {deployment.account}, "
            f"{deployment.region}: nothing was deleted"
        )
    if deployed and (others := _dependants(deployment)):
        raise DeploymentError(
            f"the experiments of namespaces {', '.join(others)} use the DRA driver that this one "
            "has made: destroy them first. Nothing was deleted"
        )
    width = max(len(stack.name) for stack in stacks)
    for stack in stacks:
        fate = f"will be deleted ({stack.status})" if stack.status else "not there"
        say(f"  {stack.name:{width}}  {stack.region}  {fate}")
    for each in remaining:
        fate = "will be deleted for good" if everything else "stays; make deploy takes it back"
        say(f"  {each} {fate}")
    if everything:
        question = f"All of it goes for good. Type the name, {deployment.name}, to delete it: "
        agreed = (name or answer(question)) == deployment.name
    else:
        agreed = yes or answer("Delete these stacks (y/n)? ") in ("y", "yes")
    if not agreed:
        say("nothing was deleted")
        return 1
    if deployed:
        # A deletion that fails half-way must leave no node behind.
        for group in nodes.groups(deployment):
            # EKS changes no size then, and the deletion takes the nodes.
            if group.status != "DELETE_FAILED" and guard.stop(deployment, group.kind):
                say(f"  {group.kind} nodes: to 0")
        # The user was asked above, with more to go by than the CLI has.
        app = ("--app", str(lifecycle.assembly(deployment)))
        if status := lifecycle.cdk("destroy", *app, *deployed, "--exclusively", "--force"):
            return status
    if everything:
        for each in remaining:
            _remove(deployment, each)
            say(f"  {each.name} is deleted")
    return 0


def _dependants(deployment: Deployment) -> list[str]:
    """Namespaces of other experiments that use the DRA driver of this one's stacks.

    By their pods' identities, for which no API of the cluster must be within reach.
    """
    if DRIVER_OUTPUT not in deployment.outputs(nodes.STACK):
        return []
    listed, operation = deployment.client("eks").listed, "list_pod_identity_associations"
    associations = ask(listed, operation, "associations", clusterName=deployment.cluster_name)
    others = {each["namespace"] for each in associations or ()} - {namespace(deployment.experiment)}
    return sorted(each for each in others if each.startswith(PROJECT))


def retained(deployment: Deployment, stacks: Iterable[str]) -> list[Retained]:
    """The buckets and logs that these stacks leave, as far as they exist."""
    existing: list[Retained] = []
    for stack in stacks:
        for resource in lifecycle.template(deployment, stack)["Resources"].values():
            measure = {_BUCKET: _bucket, _LOGS: _logs}.get(resource["Type"])
            if measure and resource.get("DeletionPolicy") == "Retain":
                name = resource["Properties"][_NAMES[resource["Type"]]]
                existing += measure(deployment, name)
    return existing


def _bucket(deployment: Deployment, name: str) -> Iterator[Retained]:
    listed = deployment.client("s3").listed
    versions = ask(listed, "list_object_versions", "Versions", Bucket=name)
    if versions is not None:
        yield Retained(name, sum(version["Size"] for version in versions), STORAGE, _BUCKET)


def _logs(deployment: Deployment, name: str) -> Iterator[Retained]:
    listed = deployment.client("logs").listed
    for group in listed("describe_log_groups", "logGroups", logGroupNamePrefix=name):
        if group["logGroupName"] == name:
            yield Retained(name, group.get("storedBytes", 0), LOGS, _LOGS)


def _remove(deployment: Deployment, each: Retained) -> None:
    """Deletes it for good: a bucket with all versions of its objects."""
    if each.type == _LOGS:
        deployment.client("logs").delete_log_group(logGroupName=each.name)
        return
    s3, pages = deployment.client("s3"), {"PageSize": _BATCH}
    for page in s3.pages("list_object_versions", Bucket=each.name, PaginationConfig=pages):
        versions = [*page.get("Versions", []), *page.get("DeleteMarkers", [])]
        keys = [{"Key": v["Key"], "VersionId": v["VersionId"]} for v in versions]
        if not keys:
            continue
        answer = s3.delete_objects(Bucket=each.name, Delete={"Objects": keys, "Quiet": True})
        for error in answer.get("Errors", []):
            raise DeploymentError(
                f"s3://{each.name}/{error['Key']} was not deleted: {error['Message']}"
            )
    s3.delete_bucket(Bucket=each.name)
