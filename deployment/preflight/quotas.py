"""What the experiment needs of the account's quotas, beside what already counts against them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from botocore.exceptions import ClientError

from deployment.place import Place
from deployment.preflight.finding import Finding, ok, refused, warning
from deployment.preflight.names import stands
from experiment.cost.standing import SYSTEM_INSTANCE
from experiment.hardware import COMPILE_INSTANCE, compile_nodes
from experiment.schema import CompileNode, Purchase
from experiment.variants import variants
from stacks.cluster import SYSTEM_NODES


@dataclass(frozen=True)
class Quota:
    """One quota of Service Quotas, in the experiment's region."""

    service: str
    code: str
    name: str


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


def trainium(place: Place) -> Iterator[Finding]:
    """The Trainium nodes. A reservation counted when it was made, and a block has no such quota."""
    capacity, subject = place.experiment.capacity, "quota, Trainium"
    if capacity.purchase.reserved:
        yield ok(subject, f"none is needed with a {capacity.purchase}")
        return
    spot = capacity.purchase is Purchase.SPOT
    wanted = capacity.nodes * capacity.instance.vcpus
    used = _vcpus_used(place, _TRN_FAMILY, spot=spot)
    yield _compared(place, subject, TRN_SPOT if spot else TRN, wanted, used, "vCPUs")


def standard(place: Place) -> Iterator[Finding]:
    """The system nodes, and the CPU nodes that stand while graphs are compiled.

    Too few for all compiles at once is no refusal: they then take turns.
    """
    subject, experiment = "quota, CPU nodes", place.experiment
    # An update starts a new system node before it ends an old one.
    system = (SYSTEM_NODES + 1) * _vcpus(place, {SYSTEM_INSTANCE})[SYSTEM_INSTANCE]
    compiles = 0
    if experiment.compile_node is CompileNode.CPU:
        compiles = compile_nodes(len(variants(experiment)))
    used, each = _vcpus_used(place, _STANDARD_FAMILIES, spot=False), COMPILE_INSTANCE.vcpus
    at_once = int((_value(place, STANDARD) - used - system) // each)
    if 0 < at_once < compiles:
        found = f"room for {at_once} of {compiles} compile nodes ({STANDARD.name})"
        more = _increase(place, STANDARD, used + system + compiles * each)
        yield warning(subject, f"{found}: compiles take turns", more)
    else:
        wanted = system + compiles * each
        yield _compared(place, subject, STANDARD, wanted, used, "vCPUs")


def vpcs(place: Place) -> Iterator[Finding]:
    """One VPC, unless the network stands."""
    yield _one_more(
        place,
        "quota, VPCs",
        VPCS,
        "network",
        lambda: len(place.client("ec2").describe_vpcs()["Vpcs"]),
    )


def addresses(place: Place) -> Iterator[Finding]:
    """One address for the NAT gateway, unless the network stands."""
    yield _one_more(
        place,
        "quota, addresses",
        ADDRESSES,
        "network",
        lambda: len(place.client("ec2").describe_addresses()["Addresses"]),
    )


def clusters(place: Place) -> Iterator[Finding]:
    """One cluster, unless it stands."""
    pages = place.client("eks").get_paginator("list_clusters")
    yield _one_more(
        place,
        "quota, clusters",
        CLUSTERS,
        "cluster",
        lambda: sum(len(page["clusters"]) for page in pages.paginate()),
    )


def _one_more(
    place: Place, subject: str, quota: Quota, stack: str, used: Callable[[], int]
) -> Finding:
    if stands(place, stack):
        return ok(subject, f"the stack {place.name}-{stack} has what it needs")
    return _compared(place, subject, quota, 1, used(), "")


def _compared(
    place: Place, subject: str, quota: Quota, wanted: int, used: int, unit: str
) -> Finding:
    value = _value(place, quota)
    what = f"{wanted} {unit}".strip()
    found = f"{what} needed, {used} in use by others, {value:g} allowed ({quota.name})"
    if used + wanted > value:
        return refused(subject, found, _increase(place, quota, used + wanted))
    return ok(subject, found)


def _increase(place: Place, quota: Quota, value: int) -> str:
    return (
        "aws service-quotas request-service-quota-increase "
        f"--region {place.region} --service-code {quota.service} --quota-code {quota.code} "
        f"--desired-value {value} (AWS takes hours or days to answer)"
    )


def _value(place: Place, quota: Quota) -> float:
    """The account's, or else AWS's default, which is all there is until one was asked for."""
    asked = {"ServiceCode": quota.service, "QuotaCode": quota.code}
    client = place.client("service-quotas")
    try:
        value: float = client.get_service_quota(**asked)["Quota"]["Value"]
    except ClientError as error:
        if error.response["Error"]["Code"] != "NoSuchResourceException":
            raise
        value = client.get_aws_default_service_quota(**asked)["Quota"]["Value"]
    return value


def _vcpus_used(place: Place, families: re.Pattern[str], *, spot: bool) -> int:
    """Of the instances of other owners: the experiment's own nodes are in what it needs."""
    types = [
        its["InstanceType"]
        for its in _running(place)
        if families.match(its["InstanceType"])
        and (its.get("InstanceLifecycle") == "spot") is spot
        and its.get("InstanceLifecycle") != "capacity-block"
        and {"Key": "eks:cluster-name", "Value": place.name} not in its.get("Tags", [])
    ]
    each = _vcpus(place, {*types}) if types else {}
    return sum(each[name] for name in types)


def _running(place: Place) -> Iterator[dict[str, Any]]:
    states = [{"Name": "instance-state-name", "Values": ["pending", "running"]}]
    for page in place.client("ec2").get_paginator("describe_instances").paginate(Filters=states):
        for reservation in page["Reservations"]:
            yield from reservation["Instances"]


def _vcpus(place: Place, types: set[str]) -> dict[str, int]:
    """By the names of instance types. A quota counts a type's default, whatever is switched off."""
    pages = place.client("ec2").get_paginator("describe_instance_types")
    return {
        its["InstanceType"]: its["VCpuInfo"]["DefaultVCpus"]
        for page in pages.paginate(InstanceTypes=sorted(types))
        for its in page["InstanceTypes"]
    }
