"""Asks an account whether it may have the instances: quotas, zones that sell them, reservations."""

import datetime
import re
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from experiment.cost import SCALED_IN, guard_hours
from experiment.hardware import SYSTEM_INSTANCE, SYSTEM_NODES, compile_nodes
from experiment.schema import CompileNode, Purchase
from experiment.variants import variants
from operations import nodes
from operations.account import Deployment, ask
from operations.lifecycle import TAG
from operations.nodes import Kind
from operations.preflight.check import Finding, ok, refused, warning


class Quota(NamedTuple):
    """A quota of EC2 in Service Quotas, in the experiment's region."""

    code: str
    name: str


# Codes and names as Service Quotas lists them (ListServiceQuotas).
TRN: Final = Quota("L-2C3B7624", "Running On-Demand Trn instances")
TRN_SPOT: Final = Quota("L-6B0D517C", "All Trn Spot Instance Requests")
STANDARD: Final = Quota("L-1216C47A", "Running On-Demand Standard instances")

_TRN_FAMILY: Final = re.compile(r"trn\d")
_STANDARD_FAMILIES: Final = re.compile(r"(a|c|d|h|i|im|is|m|r|t|z)\d")
"""A, C, D, H, I, M, R, T and Z; ``im`` and ``is`` are of I."""
_KINDS: Final = {Purchase.RESERVATION: "default", Purchase.CAPACITY_BLOCK: "capacity-block"}
"""EC2's names of them (``ReservationType``)."""
_COMING: Final = frozenset({"scheduled", "pending", "payment-pending", "assessing", "delayed"})
_ANOTHER: Final = "buy another, and set capacity.reservation_id"


def trainium_quota(deployment: Deployment) -> Iterator[Finding]:
    """Quota of the Trainium nodes. A reservation counted when it was made."""
    capacity = deployment.experiment.capacity
    if capacity.purchase.reserved:
        yield ok(f"none is needed with a {capacity.purchase}")
        return
    is_spot = capacity.purchase is Purchase.SPOT
    needed = capacity.nodes * capacity.instance.vcpus
    used = _vcpus_used(deployment, _TRN_FAMILY, is_spot=is_spot)
    yield _compared(deployment, TRN_SPOT if is_spot else TRN, needed, used)


def cpu_quota(deployment: Deployment) -> Iterator[Finding]:
    """Quota of system and compile nodes. Too few for all compiles is a warning: they take turns."""
    # An update starts a new system node before it ends an old one.
    system = 0
    if deployment.experiment.aws.cluster is None:
        system = (SYSTEM_NODES + 1) * _vcpus(deployment, {SYSTEM_INSTANCE})[SYSTEM_INSTANCE]
    compiles = 0
    if deployment.experiment.compile_node is CompileNode.CPU:
        compiles = compile_nodes(len(variants(deployment.experiment)))
    used = _vcpus_used(deployment, _STANDARD_FAMILIES, is_spot=False)
    each = deployment.experiment.compile_instance.vcpus
    needed = system + compiles * each
    room = int((_allowed(deployment, STANDARD) - used - system) // each)
    if 0 < room < compiles:
        text = f"room for {room} of {compiles} compile nodes ({STANDARD.name}): compiles take turns"
        yield warning(text, _increase(deployment, STANDARD, used + needed))
    else:
        yield _compared(deployment, STANDARD, needed, used)


def _compared(deployment: Deployment, quota: Quota, needed: int, used: int) -> Finding:
    allowed = _allowed(deployment, quota)
    text = f"{needed} needed, {used} in use by others, {allowed:g} allowed ({quota.name})"
    if used + needed <= allowed:
        return ok(text)
    return refused(text, _increase(deployment, quota, used + needed))


def _increase(deployment: Deployment, quota: Quota, desired: int) -> str:
    return (
        f"aws service-quotas request-service-quota-increase --region {deployment.region} "
        f"--service-code ec2 --quota-code {quota.code} --desired-value {desired} "
        "(AWS takes hours or days to answer)"
    )


def _allowed(deployment: Deployment, quota: Quota) -> float:
    """The account's, or else AWS's default, which is all there is until one was asked for."""
    request = {"ServiceCode": "ec2", "QuotaCode": quota.code}
    client = deployment.client("service-quotas")
    answer = ask(client.get_service_quota, **request)
    answer = answer or client.get_aws_default_service_quota(**request)
    return float(answer["Quota"]["Value"])


def _vcpus_used(deployment: Deployment, families: re.Pattern[str], *, is_spot: bool) -> int:
    """Used by instances of other owners: the experiment's own nodes are in what it needs."""
    states = [{"Name": "instance-state-name", "Values": ["pending", "running"]}]
    listed = deployment.client("ec2").listed
    types = [
        instance["InstanceType"]
        for reservation in listed("describe_instances", "Reservations", Filters=states)
        for instance in reservation["Instances"]
        if families.match(instance["InstanceType"])
        and (instance.get("InstanceLifecycle") == "spot") is is_spot
        and instance.get("InstanceLifecycle") != "capacity-block"
        and {"Key": TAG, "Value": deployment.name} not in instance.get("Tags", [])
    ]
    vcpus = _vcpus(deployment, {*types}) if types else {}
    return sum(vcpus[name] for name in types)


def _vcpus(deployment: Deployment, types: set[str]) -> dict[str, int]:
    """By the names of instance types. A quota counts a type's default, whatever is switched off."""
    listed, names = deployment.client("ec2").listed, sorted(types)
    return {
        each["InstanceType"]: each["VCpuInfo"]["DefaultVCpus"]
        for each in listed("describe_instance_types", "InstanceTypes", InstanceTypes=names)
    }


def offerings(deployment: Deployment) -> Iterator[Finding]:
    """Whether every zone of each node group has its type: EKS fails a group with another zone."""
    experiment, aws = deployment.experiment, deployment.experiment.aws
    trainium, cpus = experiment.capacity.instance_type, list[str]()
    if aws.cluster is None:
        cpus.append(SYSTEM_INSTANCE)
    if experiment.compile_node is CompileNode.CPU:
        cpus.append(experiment.compile_instance.name)
    zones: dict[str, tuple[str, ...]] = {trainium: (experiment.capacity.availability_zone,)}
    zones |= dict.fromkeys(cpus, aws.cpu_zones or aws.availability_zones)
    offered = {instance: _zones_with(deployment, instance) for instance in zones}
    serve_all_cpus = [z for z in aws.availability_zones if all(z in offered[cpu] for cpu in cpus)]
    for instance, wanted in zones.items():
        lacking = [zone for zone in wanted if zone not in offered[instance]]
        remedy = f"{deployment.region} has it in no zone: set aws.region to one that does"
        if instance in cpus and serve_all_cpus:
            remedy = f"set aws.cpu_zones: [{', '.join(serve_all_cpus)}]"
        elif offered[instance]:
            remedy = (
                f"{deployment.region} has it in {', '.join(offered[instance])}: set "
                "aws.availability_zones and capacity.availability_zone"
            )
        if lacking:
            yield refused(f"not offered in {', '.join(lacking)}", remedy, instance)
        else:
            yield ok(f"offered in {', '.join(wanted)}", subject=instance)


def _zones_with(deployment: Deployment, instance: str) -> list[str]:
    """Zones of the region that offer an instance type."""
    offered = deployment.client("ec2").listed(
        *("describe_instance_type_offerings", "InstanceTypeOfferings"),
        LocationType="availability-zone",
        Filters=[{"Name": "instance-type", "Values": [instance]}],
    )
    return sorted(each["Location"] for each in offered)


def reservation(deployment: Deployment) -> Iterator[Finding]:
    """The Capacity Block, or the reservation, if one is named."""
    id, region = deployment.experiment.capacity.reservation_id, deployment.region
    if id is None:
        return
    describe = deployment.client("ec2").describe_capacity_reservations
    if answer := ask(describe, CapacityReservationIds=[id]):
        (described,) = answer["CapacityReservations"]
        yield _judged(deployment, described)._replace(subject=id)
    else:
        list_all = f"aws ec2 describe-capacity-reservations --region {region}"
        text = f"there is none in this account and {region}"
        yield refused(text, f"set capacity.reservation_id: {list_all}", id)


def _judged(deployment: Deployment, described: dict[str, Any]) -> Finding:
    capacity, state = deployment.experiment.capacity, described["State"]
    pairs = {
        "capacity.purchase": (
            described.get("ReservationType", "default"),
            _KINDS[capacity.purchase],
        ),
        "capacity.instance_type": (described["InstanceType"], capacity.instance_type),
        "capacity.availability_zone": (described["AvailabilityZone"], capacity.availability_zone),
    }
    wrong = {field: pair for field, pair in pairs.items() if pair[0] != pair[1]}
    if wrong:
        words = (
            f"{field} is {actual}, the file has {wants}" for field, (actual, wants) in wrong.items()
        )
        remedy = f"set {', '.join(wrong)}, or another capacity.reservation_id"
        return refused("; ".join(words), remedy)
    if state != "active" and state not in _COMING:
        return refused(state, _ANOTHER)
    remaining, total = None, described["TotalInstanceCount"]
    if end := described.get("EndDate"):
        is_block = described.get("ReservationType") == "capacity-block"
        early = SCALED_IN if is_block else datetime.timedelta()
        remaining = end - early - datetime.datetime.now(datetime.UTC)
        if remaining <= datetime.timedelta():
            text = f"ends at {_time(end)}, and EKS takes its nodes away 40 minutes before"
            return refused(text, _ANOTHER)
    # The experiment's own nodes are no others' use of it.
    group, free = nodes.find(deployment, Kind.TRAINIUM), described.get("AvailableInstanceCount")
    free = total if state != "active" or free is None else free + (group.size if group else 0)
    if free < capacity.nodes:
        return refused(
            f"{free} of {total} instances are free, {capacity.nodes} are wanted (capacity.nodes)",
            "end the instances that use it, or set capacity.nodes",
        )
    text = f"{state}, {total} x {described['InstanceType']} in {described['AvailabilityZone']}"
    if state in _COMING:
        begin = described.get("StartDate")
        since = f", from {_time(begin)}" if begin else ""
        return warning(text + since, "nodes come when it is active; start them then")
    if remaining is None:
        return ok(f"{text}, without an end")
    hours, limit = remaining.total_seconds() / 3600, guard_hours(deployment.experiment)
    text += f", {hours:.1f} hours left until EKS takes the nodes away"
    if hours >= limit:
        return ok(text)
    return warning(
        text,
        f"what takes longer is cut off, and the guard leaves them {limit:g} hours; "
        "measure less, or buy a longer one",
    )


def _time(when: datetime.datetime) -> str:
    return f"{when.astimezone(datetime.UTC):%Y-%m-%d %H:%M} UTC"
