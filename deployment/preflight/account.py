"""Asks an account: who acts, what has the names already, and which quotas are left."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

from botocore.exceptions import ClientError

from charts.names import bucket_name
from deployment.account import Deployment
from deployment.lifecycle import TAG, owner, regions
from deployment.preflight.check import Answer
from experiment.cost.standing import SYSTEM_INSTANCE
from experiment.hardware import COMPILE_INSTANCE, compile_nodes
from experiment.schema import CompileNode, Purchase
from experiment.variants import variants
from stacks.nodes import SYSTEM_NODES
from stacks.regions import budget_region, budget_stack_name

BOOTSTRAP_VERSION: Final = 6
"""What the stacks of aws-cdk-lib need, as their assembly says (``requiresBootstrapStackVersion``).
A test compares."""
_BOOTSTRAP_PARAMETER: Final = "/cdk-bootstrap/hnb659fds/version"

STACKS: Final = ("network", "cluster", "model-store", "trainium", "serving", "observability")
"""The stacks of the experiment's region, after its name. A test compares them with the app's."""

_STACK_ANSWERS: Final = {
    **dict.fromkeys(("ROLLBACK_COMPLETE", "ROLLBACK_FAILED"), "made anew"),
    **dict.fromkeys(("CREATE_FAILED", "UPDATE_FAILED"), "half-way"),
    **dict.fromkeys(("UPDATE_ROLLBACK_FAILED", "IMPORT_ROLLBACK_FAILED"), "half-way"),
    "DELETE_FAILED": "not deleted",
    "DELETE_IN_PROGRESS": "being deleted",
}
"""The CLI deletes the first before it makes them anew (aws-cdk 2.1148.1, isCreationFailure)."""


class Quota(NamedTuple):
    """One quota of Service Quotas, in the experiment's region."""

    service: str
    code: str
    quota: str
    """Its name."""


# Codes and names as Service Quotas lists them (ListServiceQuotas).
TRN: Final = Quota("ec2", "L-2C3B7624", "Running On-Demand Trn instances")
TRN_SPOT: Final = Quota("ec2", "L-6B0D517C", "All Trn Spot Instance Requests")
STANDARD: Final = Quota("ec2", "L-1216C47A", "Running On-Demand Standard instances")
ADDRESSES: Final = Quota("ec2", "L-0263D0A3", "EC2-VPC Elastic IPs")
VPCS: Final = Quota("vpc", "L-F678F1CE", "VPCs per Region")
CLUSTERS: Final = Quota("eks", "L-1194D53C", "Clusters")

_TRN_FAMILY: Final = re.compile(r"trn\d")
_STANDARD_FAMILIES: Final = re.compile(r"(a|c|d|h|i|im|is|m|r|t|z)\d")
"""A, C, D, H, I, M, R, T and Z; ``im`` and ``is`` are of I."""


def credentials(deployment: Deployment) -> Iterator[Answer]:
    """Who acts."""
    yield "ok", {"arn": deployment.client("sts").get_caller_identity()["Arn"]}


def bootstrap(deployment: Deployment) -> Iterator[Answer]:
    """The CDK's bootstrap of the experiment's region, and of its budget's."""
    for region in sorted(regions(deployment.experiment)):
        facts = {"subject": f"bootstrap {region}", "needed": BOOTSTRAP_VERSION}
        ssm = deployment.client("ssm", region)
        try:
            version = int(ssm.get_parameter(Name=_BOOTSTRAP_PARAMETER)["Parameter"]["Value"])
        except ClientError as error:
            if error.response["Error"]["Code"] != "ParameterNotFound":
                raise
            yield "missing", facts
        else:
            yield "ok" if version >= BOOTSTRAP_VERSION else "old", facts | {"version": version}


def stack_names(deployment: Deployment) -> Iterator[tuple[str, str]]:
    """Name and region of each stack."""
    yield from ((f"{deployment.name}-{label}", deployment.region) for label in STACKS)
    yield budget_stack_name(deployment.experiment), budget_region(deployment.region)


def stacks(deployment: Deployment) -> Iterator[Answer]:
    """Whose the stacks of these names are, and whether a deploy can change them."""
    names = [*stack_names(deployment)]
    existing, problems = 0, 0
    for name, region in names:
        stack = deployment.stack(name, region)
        if stack is None:
            continue
        existing += 1
        status = stack["StackStatus"]
        answer = _STACK_ANSWERS.get(status, "changing" if _is_changing(status) else "")
        if owner(stack) != deployment.name:
            answer = "somebody else's"
        if answer:
            problems += 1
            yield (
                answer,
                {"subject": f"stack {name}", "stack": name, "status": status}
                | {
                    "events": "aws cloudformation describe-stack-events "
                    f"--region {region} --stack-name {name}"
                },
            )
    if not problems:
        yield "ok", {"existing": existing, "of": len(names)}


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


def cluster(deployment: Deployment) -> Iterator[Answer]:
    """Whose a cluster of this name is."""
    try:
        described = deployment.client("eks").describe_cluster(name=deployment.name)["cluster"]
    except ClientError as error:
        if error.response["Error"]["Code"] != "ResourceNotFoundException":
            raise
        yield "free", {}
    else:
        is_own = described.get("tags", {}).get(TAG) == deployment.name
        yield "ok" if is_own else "somebody else's", {"status": described["status"]}


def bucket(deployment: Deployment) -> Iterator[Answer]:
    """Whose a bucket of this name is. A deploy takes the account's own back."""
    name = bucket_name(deployment.experiment, deployment.account)
    facts, s3 = {"bucket": name}, deployment.client("s3")
    try:
        s3.head_bucket(Bucket=name)
    except ClientError as error:
        code = error.response["Error"]["Code"]
        if code == "404":
            yield "free", facts
        elif code != "403":
            raise
        elif any(each["Name"] == name for each in s3.list_buckets(Prefix=name)["Buckets"]):
            yield "unseen", facts
        else:
            yield "somebody else's", facts
    else:
        yield "ok" if has_stack(deployment, "model-store") else "retained", facts


def trainium_quota(deployment: Deployment) -> Iterator[Answer]:
    """Of the Trainium nodes. A reservation counted when it was made."""
    capacity = deployment.experiment.capacity
    if capacity.purchase.reserved:
        yield "reserved", {"purchase": capacity.purchase}
        return
    is_spot = capacity.purchase is Purchase.SPOT
    needed = capacity.nodes * capacity.instance.vcpus
    used = _vcpus_used(deployment, _TRN_FAMILY, is_spot=is_spot)
    yield _compared(deployment, TRN_SPOT if is_spot else TRN, needed, used)


def cpu_quota(deployment: Deployment) -> Iterator[Answer]:
    """Of the system nodes, and of the CPU nodes that run while graphs are compiled.

    Too few for all compiles at once is no refusal: they then take turns.
    """
    # An update starts a new system node before it ends an old one.
    system = (SYSTEM_NODES + 1) * _vcpus(deployment, {SYSTEM_INSTANCE})[SYSTEM_INSTANCE]
    compiles = 0
    if deployment.experiment.compile_node is CompileNode.CPU:
        compiles = compile_nodes(len(variants(deployment.experiment)))
    used = _vcpus_used(deployment, _STANDARD_FAMILIES, is_spot=False)
    needed = system + compiles * COMPILE_INSTANCE.vcpus
    answer, facts = _compared(deployment, STANDARD, needed, used)
    room = int((_quota(deployment, STANDARD) - used - system) // COMPILE_INSTANCE.vcpus)
    if 0 < room < compiles:
        yield "turns", {**facts, "room": room, "compiles": compiles}
    else:
        yield answer, facts


def one_more(deployment: Deployment) -> Iterator[Answer]:
    """One VPC, one address for the NAT gateway and one cluster, unless they exist."""
    ec2, eks = deployment.client("ec2"), deployment.client("eks")

    def clusters() -> int:
        pages = eks.get_paginator("list_clusters").paginate()
        return sum(len(page["clusters"]) for page in pages)

    wanted: dict[str, tuple[Quota, str, Callable[[], int]]] = {
        "VPCs": (VPCS, "network", lambda: len(ec2.describe_vpcs()["Vpcs"])),
        "addresses": (ADDRESSES, "network", lambda: len(ec2.describe_addresses()["Addresses"])),
        "clusters": (CLUSTERS, "cluster", clusters),
    }
    for name, (quota, label, used) in wanted.items():
        facts: dict[str, object] = {"subject": f"quota, {name}"}
        if has_stack(deployment, label):
            yield "exists", facts | {"stack": f"{deployment.name}-{label}"}
        else:
            answer, compared = _compared(deployment, quota, 1, used())
            yield answer, facts | dict(compared)


def _compared(deployment: Deployment, quota: Quota, needed: int, used: int) -> Answer:
    allowed = _quota(deployment, quota)
    facts = quota._asdict() | {"needed": needed, "used": used, "allowed": f"{allowed:g}"}
    return "ok" if used + needed <= allowed else "short", facts | {"wanted": used + needed}


def _quota(deployment: Deployment, quota: Quota) -> float:
    """The account's, or else AWS's default, which is all there is until one was asked for."""
    request = {"ServiceCode": quota.service, "QuotaCode": quota.code}
    client = deployment.client("service-quotas")
    try:
        answer = client.get_service_quota(**request)
    except ClientError as error:
        if error.response["Error"]["Code"] != "NoSuchResourceException":
            raise
        answer = client.get_aws_default_service_quota(**request)
    return float(answer["Quota"]["Value"])


def _vcpus_used(deployment: Deployment, families: re.Pattern[str], *, is_spot: bool) -> int:
    """Of the instances of other owners: the experiment's own nodes are in what it needs."""
    types = [
        instance["InstanceType"]
        for instance in _running(deployment)
        if families.match(instance["InstanceType"])
        and (instance.get("InstanceLifecycle") == "spot") is is_spot
        and instance.get("InstanceLifecycle") != "capacity-block"
        and {"Key": "eks:cluster-name", "Value": deployment.name} not in instance.get("Tags", [])
    ]
    vcpus = _vcpus(deployment, {*types}) if types else {}
    return sum(vcpus[name] for name in types)


def _running(deployment: Deployment) -> Iterator[dict[str, Any]]:
    states = [{"Name": "instance-state-name", "Values": ["pending", "running"]}]
    pages = deployment.client("ec2").get_paginator("describe_instances")
    for page in pages.paginate(Filters=states):
        for reservation in page["Reservations"]:
            yield from reservation["Instances"]


def _vcpus(deployment: Deployment, types: set[str]) -> dict[str, int]:
    """By the names of instance types. A quota counts a type's default, whatever is switched off."""
    pages = deployment.client("ec2").get_paginator("describe_instance_types")
    return {
        each["InstanceType"]: each["VCpuInfo"]["DefaultVCpus"]
        for page in pages.paginate(InstanceTypes=sorted(types))
        for each in page["InstanceTypes"]
    }
